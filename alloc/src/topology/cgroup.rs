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
        Some(Self { version, root, point })
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

#[cfg(test)]
mod tests {
    use super::super::fake::FakeTree;
    use super::*;

    const V1: &str = "31 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct";
    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";

    fn read(tree: &FakeTree) -> (Option<f64>, Vec<String>) {
        let mut warnings = Vec::new();
        (quota(&tree.tree(), &mut warnings), warnings)
    }

    #[test]
    fn the_tightest_level_of_version_2_holds() {
        let tree = FakeTree::new();
        tree.file("proc/self/cgroup", "0::/a.slice/b.service/c\n");
        tree.file("proc/self/mountinfo", V2);
        tree.file("sys/fs/cgroup/a.slice/cpu.max", "150000 100000\n");
        tree.file("sys/fs/cgroup/a.slice/b.service/cpu.max", "400000 100000\n");
        tree.file("sys/fs/cgroup/a.slice/b.service/c/cpu.max", "max 100000\n");
        assert_eq!(read(&tree), (Some(1.5), vec![]));
    }

    #[test]
    fn version_1_has_two_files_and_minus_one() {
        let tree = FakeTree::new();
        tree.file("proc/self/cgroup", "4:cpu,cpuacct:/job/step\n1:name=systemd:/\n");
        tree.file("proc/self/mountinfo", V1);
        let dir = "sys/fs/cgroup/cpu,cpuacct";
        tree.file(&format!("{dir}/cpu.cfs_quota_us"), "-1\n");
        tree.file(&format!("{dir}/cpu.cfs_period_us"), "100000\n");
        assert_eq!(read(&tree), (None, vec![]));
        tree.file(&format!("{dir}/job/cpu.cfs_quota_us"), "250000\n");
        tree.file(&format!("{dir}/job/cpu.cfs_period_us"), "100000\n");
        tree.file(&format!("{dir}/job/step/cpu.cfs_quota_us"), "800000\n");
        tree.file(&format!("{dir}/job/step/cpu.cfs_period_us"), "200000\n");
        assert_eq!(read(&tree), (Some(2.5), vec![]));
    }

    #[test]
    fn hybrid_systems_take_the_tighter_of_both() {
        let tree = FakeTree::new();
        tree.file("proc/self/cgroup", "4:cpu,cpuacct:/x\n0::/y\n");
        let both = format!("{V1}\n{}", V2.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified"));
        tree.file("proc/self/mountinfo", &both);
        tree.file("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "300000");
        tree.file("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000");
        tree.file("sys/fs/cgroup/unified/y/cpu.max", "700000 100000");
        assert_eq!(read(&tree).0, Some(3.0));
        tree.file("sys/fs/cgroup/unified/y/cpu.max", "70000 100000");
        assert_eq!(read(&tree).0, Some(0.7));
    }

    #[test]
    fn a_container_sees_its_own_cgroup_at_the_mount_point() {
        for (path, root) in [
            ("/docker/abc", "/docker/abc"),
            // Host path against a namespaced mount, and outside the namespace.
            ("/kubepods/pod1/abc", "/"),
            ("/../other", "/"),
            ("/elsewhere", "/docker/abc"),
        ] {
            let tree = FakeTree::new();
            tree.file("proc/self/cgroup", &format!("0::{path}"));
            let mount = V2.replace(" / ", &format!(" {root} "));
            tree.file("proc/self/mountinfo", &mount);
            tree.file("sys/fs/cgroup/cpu.max", "50000 100000");
            assert_eq!(read(&tree).0, Some(0.5), "{path} in {root}");
        }
    }

    #[test]
    fn only_the_mount_that_shows_our_cgroup_counts() {
        let tree = FakeTree::new();
        tree.file("proc/self/cgroup", "0::/mine");
        // Another container's cgroup, bind-mounted first.
        let other = "29 23 0:26 /theirs /srv/theirs rw - cgroup2 cgroup2 rw";
        tree.file("proc/self/mountinfo", &format!("{other}\n{V2}"));
        tree.file("srv/theirs/cpu.max", "10000 100000");
        tree.file("sys/fs/cgroup/mine/cpu.max", "200000 100000");
        assert_eq!(read(&tree).0, Some(2.0));
    }

    #[test]
    fn malformed_quotas_are_ignored_with_a_warning() {
        for text in ["", "max", "banana 100000", "100000", "0 100000", "5 0", "-7 100000"] {
            let tree = FakeTree::new();
            tree.file("proc/self/cgroup", "0::/a");
            tree.file("proc/self/mountinfo", V2);
            tree.file("sys/fs/cgroup/a/cpu.max", text);
            let (quota, warnings) = read(&tree);
            assert_eq!(quota, None, "{text}");
            assert_eq!(warnings.len(), usize::from(text != "max"), "{text}: {warnings:?}");
        }
    }

    #[test]
    fn malformed_proc_files_are_no_quota() {
        for (groups, mounts) in [("", ""), ("::::", " - "), ("0:", V2), ("0::/a", "1 2 3 - cgroup2")] {
            let tree = FakeTree::new();
            tree.file("proc/self/cgroup", groups);
            tree.file("proc/self/mountinfo", mounts);
            assert_eq!(read(&tree), (None, vec![]));
        }
        assert_eq!(read(&FakeTree::new()), (None, vec![]));
    }

    #[test]
    fn mount_points_are_unescaped() {
        assert_eq!(unescape(r"/a\040b\134c"), r"/a b\c");
        assert_eq!(unescape(r"/a\0é"), r"/a\0é");
        assert_eq!(unescape(r"/a\"), r"/a\");
    }
}
