//! The CPU quota of this process's control groups.
//!
//! A quota may sit at any level of the hierarchy and the tightest one holds, so
//! the reader walks from the process's cgroup up to the root of the mount.
//! Version 1 and version 2 hierarchies may be mounted side by side (hybrid
//! systems); both are read.

use super::tree::Tree;

/// The quota in CPUs: time granted over period, the tightest of all levels.
pub(super) fn quota(tree: &Tree, warnings: &mut Vec<String>) -> Option<f64> {
    let groups = tree.read("proc/self/cgroup")?;
    let mounts = tree.read("proc/self/mountinfo")?;
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
    let mut tightest: Option<f64> = None;
    for version in [Version::One, Version::Two] {
        let Some(path) = groups.lines().find_map(|line| version.path(line)) else {
            continue;
        };
        for dir in levels(&mounts, version, path) {
            match version.quota_in(tree, &dir) {
                Ok(None) => {}
                Ok(Some(cpus)) => tightest = Some(tightest.map_or(cpus, |t| t.min(cpus))),
                Err(found) => warnings.push(format!(
                    "the CPU quota in {dir} reads \"{found}\" and is ignored; \
                     set the number of workers yourself if one applies"
                )),
            }
        }
    }
    tightest
}

#[derive(Clone, Copy, PartialEq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// The path of the cgroup in a line `id:controllers:path` of
    /// `/proc/self/cgroup`, if the line is of this version and may hold a CPU
    /// quota.
    fn path(self, line: &str) -> Option<&str> {
        let mut fields = line.splitn(3, ':');
        let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let ours = match self {
            Version::One => controllers.split(',').any(|c| c == "cpu"),
            Version::Two => id == "0" && controllers.is_empty(),
        };
        ours.then_some(path)
    }

    /// `Ok(None)` if this level sets no quota, `Err` with the text if it cannot
    /// be understood.
    fn quota_in(self, tree: &Tree, dir: &str) -> Result<Option<f64>, String> {
        let text = match self {
            // Two files, -1 for none.
            Version::One => {
                let read = |file| tree.read(&format!("{dir}/{file}"));
                match (read("cpu.cfs_quota_us"), read("cpu.cfs_period_us")) {
                    (Some(quota), Some(period)) => format!("{quota} {period}"),
                    _ => return Ok(None),
                }
            }
            // One file, "max" for none.
            Version::Two => match tree.read(&format!("{dir}/cpu.max")) {
                Some(text) => text,
                None => return Ok(None),
            },
        };
        let mut fields = text.split_ascii_whitespace();
        let (quota, period) = (fields.next(), fields.next());
        if matches!(quota, Some("max" | "-1")) {
            return Ok(None);
        }
        let micros = |field: Option<&str>| field?.parse::<u64>().ok().filter(|&us| us > 0);
        match (micros(quota), micros(period)) {
            (Some(quota), Some(period)) => Ok(Some(quota as f64 / period as f64)),
            _ => Err(text),
        }
    }
}

/// A mounted hierarchy that may hold CPU quotas.
struct Mount {
    version: Version,
    /// The cgroup that is visible at `point`; not `/` in many containers.
    root: String,
    point: String,
}

impl Mount {
    /// A line of `/proc/self/mountinfo`: `id parent major:minor root point
    /// options [optional fields] - type source super-options`.
    fn parse(line: &str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (unescape(mount.next()?), unescape(mount.next()?));
        let mut system = system.split(' ');
        let (kind, options) = (system.next()?, system.nth(1)?);
        let version = match kind {
            "cgroup" if options.split(',').any(|o| o == "cpu") => Version::One,
            "cgroup2" => Version::Two,
            _ => return None,
        };
        Some(Self {
            version,
            root,
            point,
        })
    }

    /// Where the cgroup lies below the mount point, if it is visible there.
    fn below<'a>(&self, path: &'a str) -> Option<&'a str> {
        let rest = path.strip_prefix(self.root.trim_end_matches('/'))?;
        let whole = rest.is_empty() || rest.starts_with('/');
        // A cgroup outside the namespace's root is shown with "..".
        let inside = !rest.split('/').any(|part| part == "..");
        (whole && inside).then_some(rest)
    }
}

/// The folders from the process's cgroup up to the mount point.
fn levels(mounts: &[Mount], version: Version, path: &str) -> Vec<String> {
    let mut candidates = mounts.iter().filter(|m| m.version == version);
    let visible = candidates
        .clone()
        .find_map(|m| Some((m, m.below(path)?)))
        // Inside some containers the path is that of the host while the mount
        // shows the container's own cgroup: then that one is all we can see.
        .or_else(|| candidates.next().map(|m| (m, "")));
    let Some((mount, below)) = visible else {
        return Vec::new();
    };
    let mut dirs = vec![mount.point.trim_end_matches('/').to_owned()];
    for part in below.split('/').filter(|p| !p.is_empty()) {
        dirs.push(format!("{}/{part}", dirs[dirs.len() - 1]));
    }
    dirs
}

/// Mountinfo writes blanks, tabs, newlines and backslashes as `\` and three
/// octal digits.
fn unescape(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|o| u8::from_str_radix(o, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                text.push(char::from(code));
                text += &part[3..];
            }
            None => {
                text.push('\\');
                text += part;
            }
        }
    }
    text
}
