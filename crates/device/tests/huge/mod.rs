//! Memory that is one piece for the block layer.

/// Memory in one huge page of 2 MiB: for the block layer one piece of memory, whatever its size.
pub struct HugePage {
    mapped: *mut std::ffi::c_void,
    at: *mut u8,
}

const HUGE: usize = 2 << 20;

impl HugePage {
    pub fn new() -> HugePage {
        use rustix::mm::{madvise, mmap_anonymous, Advice, MapFlags, ProtFlags};
        // SAFETY: a fresh private mapping that nothing else knows; the aligned 2 MiB inside it are
        // its only part used.
        #[allow(unsafe_code)]
        let (mapped, at) = unsafe {
            let mapped = mmap_anonymous(std::ptr::null_mut(), 2 * HUGE, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE).expect("memory");
            let at = mapped.cast::<u8>().add(mapped.cast::<u8>().align_offset(HUGE));
            madvise(at.cast(), HUGE, Advice::LinuxHugepage).expect("huge pages: /sys/kernel/mm/transparent_hugepage/enabled must be madvise or always");
            at.write_bytes(1, HUGE);
            (mapped, at)
        };
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
        let mine = format!("{:x}-", at as usize);
        let is_huge =
            maps.split('\n').skip_while(|line| !line.starts_with(&mine)).take(30).any(|line| line.starts_with("AnonHugePages:") && line.contains("2048 kB"));
        assert!(is_huge, "the kernel gave no huge page: memory is too scattered for this test, or /sys/kernel/mm/transparent_hugepage/enabled says never");
        HugePage { mapped, at }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the page is mapped as long as self lives, and borrowed with it.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts_mut(self.at, HUGE)
        }
    }
}

impl Drop for HugePage {
    fn drop(&mut self) {
        // SAFETY: mapped by new() and not used any more.
        #[allow(unsafe_code)]
        let _ = unsafe { rustix::mm::munmap(self.mapped, 2 * HUGE) };
    }
}
