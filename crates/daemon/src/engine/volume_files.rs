//! A volume's files and its place in the model.

use headrace_catalog::{RaidLevel, VolumeLimits};
use headrace_control::{MemberState, VolumeRecord};
use headrace_device::AttachedVolume;
use headrace_model::host::layout_of;
use headrace_model::{Device, ModelOptions, Nanos, SavedDevice, Volume};
use headrace_store::encrypted::Locked;
use headrace_store::raid::MemberData;
use headrace_store::snapshots::{AsideKey, BlockCipher, Capture, Manifest, Restored};
use headrace_store::{Backing, Encrypted, Objects, PowerCut, Raid, SectorCipher, SparseFile};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// File in the folder of an array with copies or parity, from the time it is opened to the time it
/// is closed in order.
const IN_USE: &str = "in-use";

/// An open volume.
pub struct VolumeFiles {
    /// Number of its device in the model.
    pub device_number: usize,
    /// An array's data path.
    pub raid: Option<Arc<Raid>>,
    /// All its bytes, behind what a power cut does.
    pub power: Arc<PowerCut>,
    /// Folder of its files.
    folder: PathBuf,
    /// Bytes from which snapshots of the volume are taken.
    pub capture: Arc<Capture>,
    /// Bytes of the snapshot that the volume was made from, while some of them may not be loaded.
    pub restored: Option<Arc<Restored>>,
    /// The device, while the volume is attached.
    pub attached: Option<Arc<AttachedVolume>>,
    /// Time at which its number was last asked for.
    pub used: Instant,
    /// True if the volume is encrypted.
    pub encrypted: bool,
    /// True if it is encrypted and was opened without its key: its bytes cannot be had.
    pub locked: bool,
}

/// The data key of a volume.
pub enum DataKey {
    /// The volume is not encrypted.
    None,
    /// Ready for use.
    Open(Arc<SectorCipher>),
    /// The key cannot be had.
    Missing,
}

/// Returns the folder of a volume.
pub fn folder_of(volumes: &Path, record: &VolumeRecord) -> PathBuf {
    volumes.join(record.id.as_str())
}

fn list_files(folder: &Path, record: &VolumeRecord) -> Vec<(PathBuf, u64)> {
    let name = |index: usize| if record.spec.raid.is_none() { "data".to_string() } else { format!("member-{index}") };
    record.spec.members.iter().enumerate().map(|(index, member)| (folder.join(name(index)), member.size_gib << 30)).collect()
}

/// Makes the files of a new volume.
pub fn create_files(volumes: &Path, record: &VolumeRecord) -> io::Result<()> {
    let folder = folder_of(volumes, record);
    std::fs::create_dir(&folder)?;
    list_files(&folder, record).into_iter().try_for_each(|(path, bytes)| SparseFile::create(&path, bytes).map(drop))
}

/// Returns the bytes that a volume's files take on the disk, without opening them. Fails where a
/// file is missing or was cut.
pub fn measure_allocated(volumes: &Path, record: &VolumeRecord) -> io::Result<u64> {
    let files = list_files(&folder_of(volumes, record), record).into_iter();
    let allocated = files.map(|(path, bytes)| {
        let metadata = std::fs::metadata(&path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        match metadata.len() < bytes {
            true => Err(SparseFile::cut(&path, metadata.len(), bytes)),
            // stat(2) counts blocks of 512 bytes.
            false => Ok(metadata.blocks() * 512),
        }
    });
    allocated.sum()
}

/// Removes the files of a volume.
pub fn remove_files(volumes: &Path, record: &VolumeRecord) -> io::Result<()> {
    match std::fs::remove_dir_all(folder_of(volumes, record)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Source of the bytes of a volume that is made from a snapshot.
pub struct Origin {
    /// The snapshot's blocks.
    pub manifest: Arc<Manifest>,
    /// Store of the blocks.
    pub objects: Objects,
    /// Cipher that opens the blocks; None if they are not encrypted.
    pub cipher: Option<Arc<dyn BlockCipher>>,
}

/// All bytes of a volume, and an array's data path.
type Bytes = (Arc<dyn Backing>, Option<Arc<Raid>>);

/// Returns the bytes of a volume over its files alone.
pub(super) fn bytes_of(volumes: &Path, record: &VolumeRecord, key: &DataKey) -> io::Result<Bytes> {
    let mut members: Vec<Arc<dyn Backing>> = Vec::new();
    for (index, (path, bytes)) in list_files(&folder_of(volumes, record), record).into_iter().enumerate() {
        let file = SparseFile::open(&path, bytes).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        let file: Arc<dyn Backing> = Arc::new(file);
        members.push(match key {
            DataKey::None => file,
            DataKey::Open(cipher) => Arc::new(Encrypted::new(file, cipher.clone(), index as u32)),
            DataKey::Missing => Arc::new(Locked::new(file)),
        });
    }
    let raid = record.spec.raid.zip(layout_of(&record.spec)).map(|(level, layout)| {
        let raid = Raid::new(level, layout, members.clone(), record.size_gib() << 30);
        for (index, member) in record.members.iter().enumerate() {
            raid.set_member(index, member_data_of(&member.state));
        }
        Arc::new(raid)
    });
    let whole: Arc<dyn Backing> = match &raid {
        Some(raid) => raid.clone(),
        None => members.swap_remove(0),
    };
    Ok((whole, raid))
}

impl VolumeFiles {
    /// Opens the files of a volume whose device has `device_number`.
    pub fn open(volumes: &Path, record: &VolumeRecord, device_number: usize, key: &DataKey, origin: Option<Origin>) -> io::Result<VolumeFiles> {
        let folder = folder_of(volumes, record);
        let (mut whole, raid) = bytes_of(volumes, record, key)?;
        if let Some(raid) = raid.as_ref().filter(|_| record.spec.raid != Some(RaidLevel::Raid0)) {
            match note_in_use(&folder) {
                Ok(false) => {}
                Ok(true) => raid.mark_dirty(),
                // A full disk: it can be read nevertheless.
                Err(error) => tracing::error!("{} is in use without a note of that: after a crash it is not resynced: {error}", folder.display()),
            }
        }
        let (encrypted, locked) = (!matches!(key, DataKey::None), matches!(key, DataKey::Missing));
        let captures = folder.join("captures");
        let fresh = !captures.exists();
        let restored = origin.map(|origin| open_restored(whole.clone(), origin, &folder.join("loaded")).map(Arc::new)).transpose()?;
        if let Some(restored) = &restored {
            whole = restored.clone();
        }
        let aside_key = match key {
            DataKey::None => AsideKey::Plain,
            DataKey::Open(cipher) => AsideKey::Sealed(cipher.clone()),
            DataKey::Missing => AsideKey::Locked,
        };
        let origin = restored.as_ref().filter(|_| fresh).map(|restored| restored.manifest().name());
        let capture = Capture::sealed(whole, captures, origin, aside_key)?;
        let power = Arc::new(PowerCut::new(capture.clone()));
        Ok(VolumeFiles { device_number, raid, power, folder, capture, restored, attached: None, used: Instant::now(), encrypted, locked })
    }
}

impl VolumeFiles {
    /// Returns true if only the lab itself holds the bytes of the volume: no request, no instant,
    /// no loader, no resync.
    pub(crate) fn is_quiet(&self) -> bool {
        // The power cut contains the capture.
        self.has_no_writer() && Arc::strong_count(&self.capture) == 2
    }

    /// Returns true if nobody can write: an instant only reads.
    pub(crate) fn has_no_writer(&self) -> bool {
        // The capture contains the restored blocks, and these or the capture the array.
        Arc::strong_count(&self.power) == 1
            && self.restored.as_ref().is_none_or(|restored| Arc::strong_count(restored) == 2)
            && self.raid.as_ref().is_none_or(|raid| Arc::strong_count(raid) == 2)
    }

    /// Puts all that was written to an array on disk, and notes that its copies and its parity are
    /// equal. Call it when nothing can write any more.
    ///
    /// # Errors
    /// The files cannot be flushed: the array is resynced when it is opened again.
    pub(crate) fn close_array(&self) -> io::Result<()> {
        let Some(raid) = self.raid.as_ref().filter(|raid| !raid.is_dirty()) else { return Ok(()) };
        raid.flush()?;
        match std::fs::remove_file(self.folder.join(IN_USE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Notes on disk that an array is in use. Returns true if that was noted before, by a daemon that
/// did not close it.
fn note_in_use(folder: &Path) -> io::Result<bool> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(IN_USE)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(true),
        Err(error) => Err(error),
        Ok(file) => {
            file.sync_all()?;
            File::open(folder)?.sync_all()?;
            Ok(false)
        }
    }
}

/// Opens a volume made from a snapshot over its bytes `whole`; `marks` is the file that says which
/// blocks are loaded, and is created if it is missing.
fn open_restored(whole: Arc<dyn Backing>, origin: Origin, marks: &Path) -> io::Result<Restored> {
    let Origin { manifest, objects, cipher } = origin;
    let restored = match marks.exists() {
        true => Restored::open(whole, manifest, objects, cipher, marks)?,
        false => Restored::create(whole, manifest, objects, cipher, marks)?,
    };
    Ok(restored.with_log(|reason| tracing::error!("loading from a snapshot: {reason}")))
}

/// Returns the state of a member's bytes for its state in the lab.
pub(crate) fn member_data_of(state: &MemberState) -> MemberData {
    match state {
        MemberState::Ok | MemberState::Slow { .. } => MemberData::Good,
        MemberState::Failed => MemberData::Failed,
        MemberState::Rebuilding { .. } => MemberData::Rebuilding,
    }
}

/// Returns the model's device of a volume: as it was saved, or new.
pub fn device_of(record: &VolumeRecord, limits: &[VolumeLimits], options: &ModelOptions, saved: Option<(SavedDevice, Nanos)>) -> SavedDevice {
    let mut device = Device::new(&record.spec, limits, options, record.seed);
    let mut now = Nanos::ZERO;
    if let Some((saved, at)) = saved {
        now = at;
        for (member, earlier) in device.members_mut().iter_mut().zip(&saved.members) {
            // Tables may have been corrected since, or the instance changed: then only the levels
            // stay.
            if earlier.limits == *member.limits() && earlier.options == *options || earlier.modification.is_some() {
                *member = Volume::from_saved(earlier, at);
            } else {
                member.restore(&earlier.state);
            }
        }
    }
    for (member, entry) in device.members_mut().iter_mut().zip(&record.members) {
        member.set_failed(member_data_of(&entry.state) != MemberData::Good);
    }
    device.save(&record.spec, now)
}
