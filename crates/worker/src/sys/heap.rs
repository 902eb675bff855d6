//! What of a process its children need not have.

use std::{fs, hint::black_box, ops::Range};

/// Lets no child of this process have a copy of its heap: who forks pays for every page that is
/// copied, and again for the first write to it. What a child needs until it is its command is not
/// there ([`super::letter`]). Where the heap cannot be told from what a child needs, it is copied.
pub(crate) fn keep_heap_to_itself() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let small = black_box(Box::new([0_u8; 64]));
    let large = black_box(vec![0_u8; 16 * 1024]);
    // SAFETY: asks where this thread's own `errno` is, which every failed call writes to.
    let needed = [unsafe { libc::__errno_location() } as usize, (&raw const maps) as usize];
    let mut marked: Option<Range<usize>> = None;
    for address in [small.as_ptr() as usize, large.as_ptr() as usize] {
        let area = maps.lines().filter_map(of_nobody).find(|area| area.contains(&address));
        let Some(area) = area.filter(|area| !needed.iter().any(|at| area.contains(at))) else {
            continue;
        };
        if marked.as_ref() != Some(&area) {
            // SAFETY: nothing changes for this process; its children keep to what they are given.
            unsafe { libc::madvise(area.start as *mut _, area.len(), libc::MADV_DONTFORK) };
            marked = Some(area);
        }
    }
}

/// A part of memory that is of no file and has no name of the kernel's but that of the heap.
fn of_nobody(line: &str) -> Option<Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_private = words.next()?.ends_with('p');
    let is_of_no_file = words.nth(2)? == "0";
    let is_unnamed = words.next().is_none_or(|name| name == "[heap]" || name.starts_with("[anon"));
    let [start, end] = [start, end].map(|word| usize::from_str_radix(word, 16).ok());
    (is_private && is_of_no_file && is_unnamed).then_some(start?..end?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_a_file_or_of_the_kernel_is_no_heap() {
        for (line, area) in [
            ("20000-30000 rw-p 00000000 00:00 0 ", Some(0x20000..0x30000)),
            ("20000-30000 rw-p 00000000 00:00 0    [heap]", Some(0x20000..0x30000)),
            ("20000-30000 rw-p 00000000 00:00 0    [anon: x]", Some(0x20000..0x30000)),
            ("20000-30000 rw-s 00000000 00:00 0 ", None),
            ("20000-30000 rw-p 00000000 00:00 0    [stack]", None),
            ("20000-30000 rw-p 00002000 fe:00 326279 /usr/lib/libc.so.6", None),
            ("nothing", None),
        ] {
            assert_eq!(of_nobody(line), area, "{line}");
        }
    }
}
