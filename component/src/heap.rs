//! Where a component's memory comes from: first from a part of what its instance begins with, then from growing it. A host
//! makes an instance for each caller, and each growth costs it a call of its system; most calls need none.

use core::alloc::Layout;
use core::arch::wasm32::{memory_grow, memory_size};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use talc::base::Talc;
use talc::base::binning::Binning;
use talc::cell::TalcSyncCell;
use talc::source::Source;
use talc::wasm::WasmBinning;

/// What [`component!`](crate::component) makes the allocator of the component.
pub type Heap = TalcSyncCell<Memory, WasmBinning>;

/// Before anything is allocated.
pub const fn new() -> Heap {
    TalcSyncCell::new_wasm(Memory { end: None })
}

/// What an instance begins with: enough for handing over 20 memories of 1 KB, and with the policy's data and its stack just
/// under four pages.
const FIRST: usize = 124 << 10;

static mut FIRST_HEAP: [MaybeUninit<u8>; FIRST] = [MaybeUninit::uninit(); FIRST];

/// Whether an allocator has it.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A page of WebAssembly's.
const PAGE: usize = 64 << 10;

/// Half of what 32 bits reach, in pages. Where there is more, an address and the size of a large request together may be more
/// than 32 bits, and talc 5.1 then gives out what is not there.
const MOST: usize = (1 << 31) / PAGE;

/// More than what the allocator itself needs of a heap.
const OWN: usize = 64;

/// Asked for more where what is there does not suffice.
#[derive(Debug)]
pub struct Memory {
    /// Where the heap that was claimed or extended last ends.
    end: Option<NonNull<u8>>,
}

// SAFETY: it allocates nothing, and knows no other way to the allocator than the one it is given.
unsafe impl Source for Memory {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        if !TAKEN.swap(true, Ordering::Relaxed) {
            // SAFETY: nothing else names this static, and it is taken once.
            talc.source.end = unsafe { talc.claim((&raw mut FIRST_HEAP).cast(), FIRST) };
            return talc.source.end.map(drop).ok_or(());
        }
        let pages = layout.size().saturating_add(layout.align() + OWN).div_ceil(PAGE);
        if memory_size::<0>() + pages > MOST {
            return Err(());
        }
        let before = memory_grow::<0>(pages);
        if before == usize::MAX {
            return Err(());
        }
        let (from, bytes) = ((before * PAGE) as *mut u8, pages * PAGE);
        talc.source.end = match talc.source.end {
            // SAFETY: these pages are new, and nobody else's; the heap before them ends where they begin.
            Some(end) if end.as_ptr() == from => Some(unsafe { talc.extend(end, from.wrapping_add(bytes)) }),
            // SAFETY: these pages are new, and nobody else's.
            _ => unsafe { talc.claim(from, bytes) },
        };
        talc.source.end.map(drop).ok_or(())
    }
}
