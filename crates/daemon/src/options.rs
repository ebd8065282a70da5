//! The command line of the daemon, and the place of its socket.

use clap::Parser;
use std::path::{Path, PathBuf};

/// Folder of the lab that serves the whole machine.
pub const DEFAULT_FOLDER: &str = "/var/lib/headrace";
const DEFAULT_SOCKET: &str = "/run/headrace/lab.sock";

/// The daemon of a Headrace lab: volumes that perform like EBS volumes, as block devices of this
/// machine.
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
    /// Speed of modifications: a multiple of the wall clock's. Device timing is never scaled.
    #[arg(long)]
    pub time_scale: Option<u32>,
    /// Store of the blocks of snapshots: file:///FOLDER or s3://BUCKET/PREFIX. Else as it was; at
    /// first, the folder `snapshots` of the lab.
    #[arg(long)]
    pub snapshot_store: Option<String>,
    /// Port of 127.0.0.1 at which another process (`headrace lab up` starts one) serves the
    /// metrics: the daemon only tells it. 0: none does.
    #[arg(long, default_value_t = 0)]
    pub metrics_port: u16,
    /// True to make links under /dev too, as an instance of EC2 has them: /dev/xvdba, and
    /// /dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0...; names that exist stay as they are.
    #[arg(long)]
    pub machine_links: bool,
    /// Group whose members may use the socket, as its owner may.
    #[arg(long)]
    pub group: Option<u32>,
}

impl Options {
    /// Returns the socket's path.
    pub fn socket(&self) -> PathBuf {
        match &self.socket {
            Some(path) => path.clone(),
            None => socket_of(&self.data_dir),
        }
    }
}

/// Returns the socket of a lab that was started without one of its own.
pub(crate) fn socket_of(data_dir: &Path) -> PathBuf {
    match data_dir.as_os_str() == DEFAULT_FOLDER {
        true => PathBuf::from(DEFAULT_SOCKET),
        false => data_dir.join("lab.sock"),
    }
}
