//! Records come back as they were written, and what cannot be read is refused with its place.
