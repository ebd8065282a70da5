//! Number of volumes that an instance takes: EBS volumes by its attachment limit, local disks by
//! their number.

use crate::error::{CatalogError, Problem};
use crate::instance::InstanceLimits;
use crate::source::Sources;
use crate::spec::{StorageSpec, VolumeType};

/// Checks that all of `storages` together can be on `instance` together with its `roots` root
/// volumes.
pub(crate) fn check(sources: &Sources, storages: &[&StorageSpec], instance: &InstanceLimits, roots: usize) -> Result<(), CatalogError> {
    let members = || storages.iter().flat_map(|storage| &storage.members);
    let local = members().filter(|member| member.volume_type == VolumeType::InstanceStore).count();
    let attached = members().count() - local;
    let value = || storages.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    let name = &instance.instance_type;
    let disks = instance.instance_store_devices as usize;
    // An instance without local disks is refused by the size of the first, with a better hint.
    if disks > 0 && local > disks {
        return Err(CatalogError::Limit(Box::new(Problem::new(
            value(),
            format!("{name} has {disks} local disk{}, {local} are asked for", if disks == 1 { "" } else { "s" }),
            "data/instances.csv",
            format!("Use {disks}, or an instance type with more."),
        ))));
    }
    let Some(limit) = instance.max_ebs_attachments else { return Ok(()) };
    let most = (limit as usize).saturating_sub(roots);
    if attached <= most {
        return Ok(());
    }
    let sharing = if instance.attachments_shared { "; each network interface beyond the first takes another slot" } else { "" };
    Err(CatalogError::Limit(Box::new(Problem::new(
        value(),
        format!("{name} attaches at most {limit} EBS volumes, the root volume among them, so {most} more; {attached} are asked for{sharing}"),
        format!("data/instances.csv: {}", sources.cite(&instance.attachments_source)),
        format!("Use {most} volumes or fewer in all, or an instance type that attaches more."),
    ))))
}
