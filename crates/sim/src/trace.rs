//! What happened, for people.

/// Cuts what is the same in every id.
pub(crate) fn shorten(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut digits = String::new();
    let flush = |digits: &mut String, out: &mut String| {
        // The end of an id tells it from others.
        match digits.len() {
            0..20 => out.push_str(digits),
            length => out.push_str(&digits[length - 6..]),
        }
        digits.clear();
    };
    for letter in text.chars() {
        if letter.is_ascii_hexdigit() {
            digits.push(letter);
        } else {
            flush(&mut digits, &mut out);
            out.push(letter);
        }
    }
    flush(&mut digits, &mut out);
    out
}
