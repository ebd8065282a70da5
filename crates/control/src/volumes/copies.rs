//! Copies of volumes: what one may be made of, and how many are under way at once.

use crate::error::{ControlError, ErrorKind, API_TEXT, LAB_RULE};
use crate::snapshots::lifecycle;
use crate::state::Lab;
use crate::volumes::record::VolumeRecord;
use headrace_catalog::StorageSpec;

/// Copies of one volume that may be under way at once: what a write replaces is set aside for each
/// of them. A guess: as many as snapshots of one volume (EBS quotas).
const MOST_COPIES: usize = 5;

/// Returns the volume that is copied.
pub(crate) fn source_of<'a>(lab: &'a Lab, source: &str) -> Result<&'a VolumeRecord, ControlError> {
    let record = lab.find(source)?;
    lifecycle::check_volume(record)?;
    Ok(record)
}

/// Checks that a copy with this specification can be made.
pub(crate) fn check(lab: &Lab, source: &VolumeRecord, spec: &StorageSpec) -> Result<(), ControlError> {
    let (size_gib, needed) = (spec.usable_gib(), source.size_gib());
    if size_gib < needed {
        let rule = format!("{} has {needed} GiB, and a copy is at least as large", source.label());
        let error = ControlError::invalid(format!("{size_gib} GiB"), rule, format!("{API_TEXT}: CopyVolumes"), "Name a larger size, or none.");
        let message = format!("Volume of size {size_gib}GB is smaller than volume '{}', expect size >= {needed}GB", source.id);
        return Err(error.says("InvalidParameterValue", message));
    }
    let under_way = lab.volumes.values().filter(|record| record.is_being_copied() && record.source_volume.as_ref() == Some(&source.id)).count();
    if under_way >= MOST_COPIES {
        let rule = format!("{under_way} copies of it are being made, and at most {MOST_COPIES} are at once");
        let error = ControlError::new(ErrorKind::LimitExceeded, source.label(), rule, LAB_RULE, "Wait until one of them is available.");
        return Err(error.says("RequestLimitExceeded", "Request limit exceeded."));
    }
    Ok(())
}
