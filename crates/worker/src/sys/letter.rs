//! What a new process must know until it is its command, in memory of its own: the heap of a guardian
//! is not there for its children (see [`super::keep_heap_to_itself`]).

use std::{
    ffi::{CStr, CString, c_char, c_int},
    io,
    mem::{align_of, size_of_val},
    ptr::{self, NonNull},
    slice,
};

use super::child::Image;

/// Number of the resource, soft and hard limit.
type Rlimit = (u32, u64, u64);

/// An [`Image`] in the form that the kernel takes; what it points to is in `memory`.
pub(super) struct Letter {
    pub(super) program: *const c_char,
    pub(super) arguments: *const *const c_char,
    pub(super) environment: *const *const c_char,
    pub(super) directory: *const c_char,
    rlimits: (*const Rlimit, usize),
    /// User, group and other groups.
    pub(super) ids: Option<(u32, u32, (*const u32, usize))>,
    pub(super) own_group: bool,
    pub(super) death_signal: Option<c_int>,
    pub(super) no_new_privileges: bool,
    _memory: Memory,
}

impl Letter {
    /// # Errors
    /// There is no memory for it.
    pub(super) fn write(image: &Image) -> io::Result<Self> {
        let words = [&image.program, &image.directory].into_iter();
        let words = words.chain(&image.arguments).chain(&image.environment);
        let length: usize = words.map(|word| word.as_bytes_with_nul().len()).sum();
        let pointers = image.arguments.len() + image.environment.len() + 2;
        let groups = image.ids.as_ref().map(|(.., groups)| groups.as_slice()).unwrap_or_default();
        // Each of the lists may begin where its items may, and not before.
        let length = length
            + pointers * size_of::<*const c_char>()
            + size_of_val(image.rlimits.as_slice())
            + size_of_val(groups)
            + 4 * align_of::<Rlimit>();
        let mut memory = Memory::new(length)?;
        let ids = image.ids.as_ref();
        Ok(Self {
            program: memory.word(&image.program),
            arguments: memory.words(&image.arguments),
            environment: memory.words(&image.environment),
            directory: memory.word(&image.directory),
            rlimits: (memory.put(&image.rlimits), image.rlimits.len()),
            ids: ids.map(|(user, group, _)| (*user, *group, (memory.put(groups), groups.len()))),
            own_group: image.own_group,
            death_signal: image.death_signal,
            no_new_privileges: image.no_new_privileges,
            _memory: memory,
        })
    }

    pub(super) const fn rlimits(&self) -> &[Rlimit] {
        // SAFETY: so many were put there, and they stay for as long as the memory does.
        unsafe { slice::from_raw_parts(self.rlimits.0, self.rlimits.1) }
    }
}

/// Pages that belong to nobody else, filled from their beginning.
struct Memory {
    base: NonNull<u8>,
    length: usize,
    used: usize,
}

impl Memory {
    fn new(length: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new pages, which nobody else knows.
        let base = unsafe { libc::mmap(ptr::null_mut(), length, access, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, length, used: 0 })
    }

    /// A copy of `items`; null if there is no room, which there is by how it was made.
    fn put<T: Copy>(&mut self, items: &[T]) -> *const T {
        let start = self.used.next_multiple_of(align_of::<T>());
        let end = start + size_of_val(items);
        if end > self.length {
            return ptr::null();
        }
        self.used = end;
        // SAFETY: what is written lies within the pages, behind everything that was put there before,
        // and where such items may begin: pages do.
        unsafe {
            let place = self.base.as_ptr().add(start).cast::<T>();
            ptr::copy_nonoverlapping(items.as_ptr(), place, items.len());
            place
        }
    }

    fn word(&mut self, word: &CStr) -> *const c_char {
        self.put(word.to_bytes_with_nul()).cast()
    }

    /// Ended by a null.
    fn words(&mut self, words: &[CString]) -> *const *const c_char {
        let words: Vec<_> = words.iter().map(|word| self.word(word)).collect();
        let pointers: Vec<_> = words.into_iter().chain([ptr::null()]).collect();
        self.put(&pointers)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: they were made here, of this length, and nobody points to them any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}
