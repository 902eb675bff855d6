//! Ids that are drawn once and are unique everywhere.

use super::IdError;
use crate::text::text_face;
use crate::time::WallTime;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use uuid::{Builder, Uuid, Variant, Version};

/// Declares ids of 16 bytes. `is_made` tells bytes that were made as this id from damaged ones.
macro_rules! uuid_ids {
    ($($(#[$doc:meta])* $name:ident => $prefix:literal, $what:literal, $is_made:path;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(Uuid);

        /// The order of the bytes, as one number: maps of hundreds of thousands are searched by these.
        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                self.0.as_u128().cmp(&other.0.as_u128())
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl $name {
            /// Takes bytes as read from the wire, the store or a file.
            ///
            /// # Errors
            /// [`IdError::Damaged`] when they cannot have been made as this id.
            pub fn from_bytes(bytes: [u8; 16]) -> Result<Self, IdError> {
                let uuid = Uuid::from_bytes(bytes);
                if $is_made(&uuid) {
                    Ok(Self(uuid))
                } else {
                    Err(IdError::Damaged { bytes, expected: $what })
                }
            }

            /// The bytes, for the wire, the store or a file.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0.simple())
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let mistyped = || IdError::Mistyped {
                    text: text.to_owned(),
                    expected: concat!($what, ": write ", $prefix, " and 32 digits of 0-9 and a-f"),
                };
                let bytes = text.strip_prefix($prefix).and_then(hex).ok_or_else(mistyped)?;
                Self::from_bytes(bytes).map_err(|_| mistyped())
            }
        }

        text_face! { $name reads with word, $what; }
    )+};
}

/// Declares ids that their maker draws: version 7 UUIDs, which sort by the time of their making.
macro_rules! drawn_ids {
    ($($(#[$doc:meta])* $name:ident => $prefix:literal, $what:literal, $is_made:path;)+) => {
        uuid_ids! { $($(#[$doc])* $name => $prefix, $what, $is_made;)+ }
        $(impl $name {
            /// Makes the id from a given time and given randomness.
            ///
            /// Time is there to sort by; it promises nothing. A time before 1970 counts as 1970.
            pub const fn from_parts(at: WallTime, random: [u8; 10]) -> Self {
                Self(version_7(at, random))
            }
        })+
    };
}

drawn_ids! {
    /// One start of a key on one worker. It is sent once; a second start has another id.
    RunId => "run-", "a run id", is_version_7;
    /// One cluster, for ever: it stands in the store, on every server and with every worker, so
    /// that none of them joins a foreign one.
    ClusterId => "cluster-", "a cluster id", is_version_7;
    /// Given when a task's name is created; tells a re-created name from the old one. Clients draw it, too,
    /// and may take any 16 bytes.
    TaskIncarnation => "ti-", "a task incarnation", is_anything;
    /// Left in the store by a commit, so that a commit whose answer was lost can be recognised.
    WriteId => "write-", "a write id", is_version_7;
    /// One data directory of a worker, drawn when the directory is made.
    DirectoryId => "dir-", "a directory id", is_version_7;
}

impl TaskIncarnation {
    /// Reads what a client has drawn: a UUID of any version, in either case, with or without its dashes and
    /// the prefix. [`FromStr`] reads only the one text that this library writes.
    ///
    /// # Errors
    /// [`IdError::Mistyped`] when the text is no UUID.
    pub fn of_client(text: &str) -> Result<Self, IdError> {
        let digits = text.strip_prefix("ti-").unwrap_or(text);
        // With braces, or as a URN, it is longer.
        let uuid = Uuid::try_parse(digits).ok().filter(|_| matches!(digits.len(), 32 | 36));
        uuid.map(Self).ok_or_else(|| IdError::Mistyped {
            text: text.to_owned(),
            expected: "a task incarnation: write a UUID, such as ti- and 32 digits of 0-9 and a-f",
        })
    }
}

uuid_ids! {
    /// One machine, as its operating system names it: any 16 bytes but zeros, which stand for a
    /// machine that has not been named yet.
    MachineId => "machine-", "a machine id", is_named;
}

const fn version_7(at: WallTime, random: [u8; 10]) -> Uuid {
    let millis = at.as_millis();
    let millis = if millis < 0 { 0 } else { millis.unsigned_abs() };
    Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
}

fn is_version_7(uuid: &Uuid) -> bool {
    uuid.get_version() == Some(Version::SortRand) && uuid.get_variant() == Variant::RFC4122
}

const fn is_anything(_: &Uuid) -> bool {
    true
}

const fn is_named(uuid: &Uuid) -> bool {
    !uuid.is_nil()
}

/// Reads 32 lower-case digits. Stricter than UUIDs need, so that an id has one text.
fn hex(text: &str) -> Option<[u8; 16]> {
    let is_plain = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if !is_plain {
        return None;
    }
    Uuid::try_parse(text).ok().map(Uuid::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "run-0192f5e4a6c07bcd89abcdef01234567";

    fn wall(millis: i64) -> WallTime {
        WallTime::from_millis(millis).unwrap()
    }

    proptest! {
        #[test]
        fn ids_are_in_the_order_of_their_bytes(one in any::<[u8; 10]>(), other in any::<[u8; 10]>()) {
            let (one, other) = (RunId::from_parts(wall(1), one), RunId::from_parts(wall(1), other));
            prop_assert_eq!(one.cmp(&other), one.as_bytes().cmp(other.as_bytes()));
        }
    }

    #[test]
    fn a_drawn_id_has_the_layout_of_version_7() {
        let id = RunId::from_parts(wall(0x0192_f5e4_a6c0), [0xff; 10]);
        assert_eq!(id.to_string(), "run-0192f5e4a6c07fffbfffffffffffffff");
        let id = RunId::from_parts(wall(0x0192_f5e4_a6c0), [0; 10]);
        assert_eq!(id.to_string(), "run-0192f5e4a6c070008000000000000000");
    }

    #[test]
    fn a_time_before_1970_counts_as_1970() {
        assert_eq!(
            WriteId::from_parts(WallTime::MIN, [7; 10]),
            WriteId::from_parts(wall(0), [7; 10])
        );
    }

    #[test]
    fn bytes_that_no_maker_made_are_damaged() {
        let error = RunId::from_bytes([0; 16]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("bytes {} are not a run id: what holds them is damaged", "0".repeat(32))
        );
        let version_4 = [0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x41, 0x11, 0x81, 1, 1, 1, 1, 1, 1, 1];
        assert!(RunId::from_bytes(version_4).is_err());
        let mut other_variant = *ID.parse::<RunId>().unwrap().as_bytes();
        other_variant[8] = 0xc9;
        assert!(RunId::from_bytes(other_variant).is_err());
        assert!(MachineId::from_bytes(version_4).is_ok());
        assert!(MachineId::from_bytes([0; 16]).is_err());
    }

    #[test]
    fn an_id_has_one_text() {
        assert_eq!(ID.parse::<RunId>().unwrap().to_string(), ID);
        let others = [
            "",
            "run-",
            "0192f5e4a6c07bcd89abcdef01234567",
            "write-0192f5e4a6c07bcd89abcdef01234567",
            "run-0192F5E4A6C07BCD89ABCDEF01234567",
            "run-0192f5e4-a6c0-7bcd-89ab-cdef01234567",
            "run-0192f5e4a6c07bcd89abcdef0123456",
            "run-0192f5e4a6c07bcd89abcdef012345678",
            "run-0192f5e4a6c04bcd89abcdef01234567",
            " run-0192f5e4a6c07bcd89abcdef01234567",
        ];
        for text in others {
            let error = text.parse::<RunId>().unwrap_err().to_string();
            let remedy = "is not a run id: write run- and 32 digits of 0-9 and a-f";
            assert_eq!(error, format!("'{text}' {remedy}"));
        }
    }

    #[test]
    fn a_client_may_draw_any_uuid_and_write_it_with_or_without_dashes() {
        let wanted = "ti-0192f5e4a6c04bcd89abcdef01234567";
        let texts = [
            wanted,
            "0192f5e4a6c04bcd89abcdef01234567",
            "0192F5E4A6C04BCD89ABCDEF01234567",
            "0192f5e4-a6c0-4bcd-89ab-cdef01234567",
            "ti-0192f5e4-a6c0-4bcd-89ab-cdef01234567",
        ];
        for text in texts {
            let read = TaskIncarnation::of_client(text).unwrap();
            assert_eq!(read.to_string(), wanted, "{text}");
            assert_eq!(TaskIncarnation::from_bytes(*read.as_bytes()), Ok(read));
            assert_eq!(wanted.parse(), Ok(read));
        }
        for digit in ["0", "f"] {
            assert!(TaskIncarnation::of_client(&digit.repeat(32)).is_ok());
        }
        let others = [
            "",
            "ti-",
            "run-0192f5e4a6c04bcd89abcdef01234567",
            "0192f5e4a6c04bcd89abcdef0123456",
            "0192f5e4a6c04bcd89abcdef0123456g",
            "{0192f5e4a6c04bcd89abcdef01234567}",
            "urn:uuid:0192f5e4-a6c0-4bcd-89ab-cdef01234567",
        ];
        for text in others {
            let error = TaskIncarnation::of_client(text).unwrap_err().to_string();
            assert!(error.contains("is not a task incarnation: write a UUID"), "{error}");
        }
    }

    #[test]
    fn json_holds_the_text() {
        let id: RunId = ID.parse().unwrap();
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, format!("\"{ID}\""));
        assert_eq!(serde_json::from_str::<RunId>(&json).unwrap(), id);
        let error = serde_json::from_str::<RunId>("7").unwrap_err().to_string();
        assert_eq!(error, "invalid type: integer `7`, expected a run id at line 1 column 1");
    }

    proptest! {
        #[test]
        fn text_and_bytes_come_back_as_the_same_id(millis: u32, random: [u8; 10]) {
            let id = TaskIncarnation::from_parts(wall(i64::from(millis)), random);
            prop_assert_eq!(id.to_string().parse(), Ok(id));
            prop_assert_eq!(TaskIncarnation::from_bytes(*id.as_bytes()), Ok(id));
        }

        #[test]
        fn later_ids_sort_later(early: u32, after in 1_u32.., randoms: [[u8; 10]; 2]) {
            let early = i64::from(early);
            let first = ClusterId::from_parts(wall(early), randoms[0]);
            let second = ClusterId::from_parts(wall(early + i64::from(after)), randoms[1]);
            prop_assert!(first < second);
            prop_assert!(first.to_string() < second.to_string());
        }
    }
}
