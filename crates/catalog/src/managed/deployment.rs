//! Deployments of a MySQL server: services and their options.

use crate::error::{did_you_mean, CatalogError, Problem};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A service that runs MySQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// A server of one's own on an instance with EBS volumes.
    Ec2,
    /// Amazon RDS for MySQL.
    Rds,
    /// Amazon Aurora MySQL.
    Aurora,
}

impl Service {
    /// Returns the name in tables and notation.
    pub fn as_str(self) -> &'static str {
        match self {
            Service::Ec2 => "ec2",
            Service::Rds => "rds",
            Service::Aurora => "aurora",
        }
    }

    /// Returns the name in sentences.
    pub fn title(self) -> &'static str {
        match self {
            Service::Ec2 => "EC2",
            Service::Rds => "RDS",
            Service::Aurora => "Aurora",
        }
    }
}

/// A service with the option that decides its storage, its commits and its price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Deployment {
    /// One's own server.
    #[serde(rename = "ec2")]
    Ec2,
    /// RDS on one instance.
    #[serde(rename = "rds:single-az")]
    RdsSingleAz,
    /// RDS with a standby in another zone that gets every write.
    #[serde(rename = "rds:multi-az")]
    RdsMultiAz,
    /// RDS with two readable standbys; a commit waits for the first of them.
    #[serde(rename = "rds:multi-az-cluster")]
    RdsCluster,
    /// Aurora with I/O billed by use.
    #[serde(rename = "aurora:standard")]
    AuroraStandard,
    /// Aurora with I/O in the price of class and storage.
    #[serde(rename = "aurora:io-optimized")]
    AuroraIoOptimized,
}

impl Deployment {
    /// Every deployment, in the order they are shown.
    pub const ALL: [Deployment; 6] =
        [Deployment::Ec2, Deployment::RdsSingleAz, Deployment::RdsMultiAz, Deployment::RdsCluster, Deployment::AuroraStandard, Deployment::AuroraIoOptimized];

    /// Returns the service.
    pub fn service(self) -> Service {
        match self {
            Deployment::Ec2 => Service::Ec2,
            Deployment::RdsSingleAz | Deployment::RdsMultiAz | Deployment::RdsCluster => Service::Rds,
            Deployment::AuroraStandard | Deployment::AuroraIoOptimized => Service::Aurora,
        }
    }

    /// Returns the option, as the tables name it.
    pub fn option(self) -> &'static str {
        match self {
            Deployment::Ec2 => "any",
            Deployment::RdsSingleAz => "single-az",
            Deployment::RdsMultiAz => "multi-az",
            Deployment::RdsCluster => "multi-az-cluster",
            Deployment::AuroraStandard => "standard",
            Deployment::AuroraIoOptimized => "io-optimized",
        }
    }

    /// Returns the deployments that a name stands for: `rds` for all of RDS, `rds:multi-az` for
    /// one.
    ///
    /// # Errors
    /// [`CatalogError::UnknownType`] naming the known ones.
    pub fn named(name: &str) -> Result<Vec<Deployment>, CatalogError> {
        let given = name.trim().to_ascii_lowercase();
        let matches: Vec<Deployment> =
            Deployment::ALL.into_iter().filter(|deployment| deployment.to_string() == given || deployment.service().as_str() == given).collect();
        if !matches.is_empty() {
            return Ok(matches);
        }
        let mut names: Vec<String> = vec!["ec2".into(), "rds".into(), "aurora".into()];
        names.extend(Deployment::ALL.iter().filter(|deployment| **deployment != Deployment::Ec2).map(ToString::to_string));
        let otherwise = format!("Known: {}.", names.join(", "));
        let hint = did_you_mean(&given, names.iter().map(String::as_str), &otherwise);
        Err(CatalogError::UnknownType(Box::new(Problem::new(name, "is not a service that runs MySQL", "data/managed", hint))))
    }
}

impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Deployment::Ec2 => f.pad("ec2"),
            other => f.pad(&format!("{}:{}", other.service().as_str(), other.option())),
        }
    }
}

impl FromStr for Deployment {
    type Err = CatalogError;

    /// Reads one deployment; a service alone stands for its plainest: `rds:single-az`,
    /// `aurora:standard`.
    fn from_str(text: &str) -> Result<Self, CatalogError> {
        Ok(Deployment::named(text)?[0])
    }
}
