//! Arguments of headraced.

use clap::Parser;
use std::path::PathBuf;

/// Where a lab of the whole machine lives.
pub const DEFAULT_FOLDER: &str = "/var/lib/headrace";
const DEFAULT_SOCKET: &str = "/run/headrace/lab.sock";

/// The daemon of a Headrace lab: volumes that perform like EBS volumes, as block devices of this machine.
#[derive(Clone, Debug, Parser)]
#[command(name = "headraced", version, about)]
pub struct Options {
    /// Folder of the lab: journal, volumes, metrics.
    #[arg(long, default_value = DEFAULT_FOLDER)]
    pub data_dir: PathBuf,
    /// Unix socket; else /run/headrace/lab.sock, or lab.sock in another --data-dir.
    #[arg(long)]
    pub socket: Option<PathBuf>,
    /// EC2 instance type whose EBS limits all volumes share, or `none`. Else as it was.
    #[arg(long)]
    pub instance_type: Option<String>,
    /// Day of the limits of new volumes, YYYY-MM-DD, or `newest`. Else as it was.
    #[arg(long)]
    pub as_of: Option<String>,
    /// How many times as fast as the wall modifications go. Device timing is never scaled.
    #[arg(long)]
    pub time_scale: Option<u32>,
    /// Port of the Prometheus endpoint on 127.0.0.1; 0: none.
    #[arg(long, default_value_t = 9464)]
    pub metrics_port: u16,
    /// Group whose members may use the socket beside its owner.
    #[arg(long)]
    pub group: Option<u32>,
}

impl Options {
    /// The socket's path.
    pub fn socket(&self) -> PathBuf {
        match &self.socket {
            Some(path) => path.clone(),
            None if self.data_dir.as_os_str() == DEFAULT_FOLDER => PathBuf::from(DEFAULT_SOCKET),
            None => self.data_dir.join("lab.sock"),
        }
    }
}
