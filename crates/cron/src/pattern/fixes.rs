use std::fmt;

use serde::{Deserialize, Serialize, de::Error as _};

/// What happens to a label that a jump of the clock leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Missing {
    /// `skip`: it does not fire.
    Skip,
    /// `unskip`: it fires in the last second before the jump.
    LastSecondBefore,
    /// It fires at the first instant after the jump; what crontab lines do under
    /// [`Policy::Vixie`](crate::Policy::Vixie), and only they.
    FirstSecondAfter,
}

/// What happens to a label that is shown more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repeated {
    /// `repeat_use_both`: it fires each time.
    Both,
    /// `repeat_use_only_early`: it fires the first time.
    OnlyEarly,
    /// `repeat_use_only_late`: it fires the last time.
    OnlyLate,
}

/// What a pattern does where the local clock jumps. There is no default: say which you mean.
///
/// ```
/// use sterna_cron::{DstFixes, Missing, Repeated};
///
/// let fixes = DstFixes::from_names(["unskip", "repeat_use_only_early"])?;
/// assert_eq!(fixes.missing, Missing::LastSecondBefore);
/// assert_eq!(fixes.repeated, Repeated::OnlyEarly);
/// assert!(DstFixes::from_names(["unskip"]).is_err());
/// # Ok::<(), sterna_cron::FixesError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DstFixes {
    /// For labels that do not exist.
    pub missing: Missing,
    /// For labels that exist more than once.
    pub repeated: Repeated,
}

/// Why a list of names is no [`DstFixes`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "dst_fixes: {found} is not allowed; it takes two names: skip or unskip, and \
     repeat_use_both, repeat_use_only_early or repeat_use_only_late"
)]
pub struct FixesError {
    found: String,
}

impl DstFixes {
    /// From two names, in any order: `skip` or `unskip`, and `repeat_use_both`,
    /// `repeat_use_only_early` or `repeat_use_only_late`. Anything else is an error that lists
    /// them.
    ///
    /// ```
    /// # use sterna_cron::DstFixes;
    /// let fixes = DstFixes::from_names(["repeat_use_both", "skip"])?;
    /// assert_eq!(fixes.to_string(), "skip, repeat_use_both");
    /// assert!(DstFixes::from_names(["skip", "skip"]).is_err());
    /// # Ok::<(), sterna_cron::FixesError>(())
    /// ```
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, FixesError> {
        let names: Vec<&str> = names.into_iter().collect();
        let fixes = match names[..] {
            [one, other] => {
                let pair = |missing, repeated| {
                    Some(Self { missing: missing_of(missing)?, repeated: repeated_of(repeated)? })
                };
                pair(one, other).or_else(|| pair(other, one))
            }
            _ => None,
        };
        fixes.ok_or_else(|| FixesError { found: format!("[{}]", names.join(", ")) })
    }
}

fn missing_of(name: &str) -> Option<Missing> {
    match name {
        "skip" => Some(Missing::Skip),
        "unskip" => Some(Missing::LastSecondBefore),
        _ => None,
    }
}

fn repeated_of(name: &str) -> Option<Repeated> {
    match name {
        "repeat_use_both" => Some(Repeated::Both),
        "repeat_use_only_early" => Some(Repeated::OnlyEarly),
        "repeat_use_only_late" => Some(Repeated::OnlyLate),
        _ => None,
    }
}

impl fmt::Display for DstFixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = match self.missing {
            Missing::Skip => "skip",
            Missing::LastSecondBefore => "unskip",
            Missing::FirstSecondAfter => "run after the jump",
        };
        let repeated = match self.repeated {
            Repeated::Both => "repeat_use_both",
            Repeated::OnlyEarly => "repeat_use_only_early",
            Repeated::OnlyLate => "repeat_use_only_late",
        };
        write!(f, "{missing}, {repeated}")
    }
}

impl<'de> Deserialize<'de> for DstFixes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        Self::from_names(names.iter().map(String::as_str)).map_err(D::Error::custom)
    }
}

impl Serialize for DstFixes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.to_string().split(", "))
    }
}
