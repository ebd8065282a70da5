//! AWS's own words for the limits of volume types: error code and sentence. Clients read limits out
//! of them, so they are kept to the letter where they are known: the sentences about IOPS are those
//! that public issue trackers and the source of the EBS CSI driver quote; those about sizes and
//! MiB/s are formed after them.

use headrace_catalog::{BrokenLimit, CatalogError, VolumeType};

const VALUE: &str = "InvalidParameterValue";
const COMBINATION: &str = "InvalidParameterCombination";

/// Returns the code and sentence of an error of the catalog, where AWS has its own.
pub(crate) fn word_catalog_error(error: &CatalogError) -> Option<(&'static str, String)> {
    let problem = error.problem();
    match error {
        CatalogError::UnknownType(_) if problem.rule.contains("volume type") => {
            Some(("UnknownVolumeType", format!("Unknown volume type '{}'.", problem.value)))
        }
        // "gp3 on 2018-01-01": the type was not there yet.
        CatalogError::NotYet { .. } => {
            let type_name = problem.value.split(' ').next().filter(|word| word.parse::<VolumeType>().is_ok())?;
            Some(("UnknownVolumeType", format!("Unknown volume type '{type_name}'.")))
        }
        CatalogError::Limit(_) => problem.limit.map(|(volume_type, broken)| word_limit(volume_type, broken)),
        _ => None,
    }
}

/// Returns the error code and the sentence of EC2 for a limit of a volume type that is broken.
fn word_limit(volume_type: &str, broken: BrokenLimit) -> (&'static str, String) {
    match broken {
        BrokenLimit::SizeTooSmall { gib, least } => (VALUE, format!("Volume of {gib}GiB is too small; minimum is {least}GiB.")),
        BrokenLimit::SizeTooLarge { gib, most } => (VALUE, format!("Volume of {gib}GiB is too large; maximum is {most}GiB.")),
        BrokenLimit::IopsTooLow { iops, least } => (VALUE, format!("Volume iops of {iops} is too low; minimum is {least}.")),
        // The CSI driver finds the limit of io2 before "K IOPS".
        BrokenLimit::IopsTooHigh { most, most_gib, most_per_gib, .. } if volume_type == VolumeType::Io2.as_str() => {
            let (tib, thousands) = (most_gib / 1_024, most / 1_000);
            (VALUE, format!("io2 volumes configured with greater than {tib} TiB or {thousands}K IOPS or {most_per_gib}:1 IOPS:GB ratio are not supported."))
        }
        BrokenLimit::IopsTooHigh { iops, most, .. } => (VALUE, format!("Volume iops of {iops} is too high; maximum is {most}.")),
        BrokenLimit::IopsPerGib { iops, gib, most } => {
            (VALUE, format!("Iops to volume size ratio of {:.6} is too high; maximum is {most}", iops as f64 / gib.max(1) as f64))
        }
        BrokenLimit::IopsMissing => (COMBINATION, format!("The parameter iops must be specified for {volume_type} volumes.")),
        BrokenLimit::IopsNotTaken => (COMBINATION, format!("The parameter iops is not supported for {volume_type} volumes.")),
        BrokenLimit::ThroughputTooLow { mib_s, least } => (VALUE, format!("Volume throughput of {mib_s} is too low; minimum is {least}.")),
        BrokenLimit::ThroughputTooHigh { mib_s, most } => (VALUE, format!("Volume throughput of {mib_s} is too high; maximum is {most}.")),
        BrokenLimit::ThroughputPerIops { mib_s, iops, most_for_1000_iops } => {
            let (ratio, most) = (mib_s as f64 / iops.max(1) as f64, most_for_1000_iops as f64 / 1e3);
            (VALUE, format!("Throughput (MiBps) to iops ratio of {ratio:.6} is too high; maximum is {most:.6} MiBps per iops."))
        }
        BrokenLimit::ThroughputNotTaken => (COMBINATION, format!("The parameter throughput is not supported for {volume_type} volumes.")),
    }
}
