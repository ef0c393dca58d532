//! Who may use whom: holds the sources against the list in `docs/architecture.md`.

use std::fs;
use std::path::{Path, PathBuf};

/// A module of `runtime/src`, and those it may name by `crate::`. (`api` names are re-exports, used in doc links only.)
const MAY_USE: [(&str, &[&str]); 6] = [
    ("sync", &[]),
    ("balance", &["task", "touch", "sched"]),
    ("sched", &["sched", "sync"]),
    ("task", &["task", "sched", "sync", "touch", "runtime"]),
    ("runtime", &["runtime", "task", "sched", "stats", "balance", "sync"]),
    ("stats", &["stats", "runtime", "task", "touch", "sched", "balance", "sync"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The lines that are compiled into the library: no comments, no tests, no models. With their numbers.
fn code(path: &Path) -> Vec<(usize, String)> {
    let name = path.file_name().unwrap().to_str().unwrap();
    if matches!(name, "tests.rs" | "model.rs") {
        return Vec::new();
    }
    let text = fs::read_to_string(path).unwrap();
    let mut lines = Vec::new();
    // Test modules stand last in their files.
    let mut in_tests = false;
    let mut before = "";
    for (number, line) in text.lines().enumerate() {
        in_tests |= line.starts_with("mod ") && line.ends_with('{') && before.contains("test");
        before = line;
        if in_tests {
            continue;
        }
        let code = line.split("//").next().unwrap_or("");
        lines.push((number + 1, code.to_owned()));
    }
    lines
}

/// What follows each occurrence of `prefix` that stands alone (not the end of a longer word).
fn named(line: &str, prefix: &str) -> Vec<String> {
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let starts = line.match_indices(prefix).filter(|(at, _)| !line[..*at].ends_with(word));
    starts
        .flat_map(|(at, _)| {
            let rest = &line[at + prefix.len()..];
            let items = match rest.strip_prefix('{') {
                Some(list) => list.split('}').next().unwrap_or("").split(',').map(str::trim).collect(),
                None => vec![rest],
            };
            items.into_iter().map(|item| item.chars().take_while(|&c| word(c)).collect::<String>()).collect::<Vec<_>>()
        })
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn modules_of_the_runtime_use_only_what_they_may() {
    let folder = root().join("runtime/src");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in sources(&folder) {
        let inside = path.strip_prefix(&folder).unwrap();
        let first = inside.iter().next().unwrap().to_str().unwrap();
        let module = first.trim_end_matches(".rs");
        if module == "lib" {
            continue;
        }
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == module) else {
            panic!("{module} is in no list: say in docs/architecture.md, and here, whom it may use");
        };
        let depth = inside.components().count() - usize::from(path.ends_with("mod.rs"));
        for (number, line) in code(&path) {
            for name in named(&line, "crate::") {
                seen += 1;
                if !allowed.contains(&name.as_str()) {
                    wrong.push(format!("{}:{number}: {module} names crate::{name}", inside.display()));
                }
            }
            // The other way out of a module.
            let up = line.matches("super::").count();
            if line.contains(&"super::".repeat(depth.max(1))) && up >= depth && depth > 0 && inside.iter().count() > 1 {
                let chain =
                    line.split(|c: char| c.is_whitespace()).any(|word| word.matches("super::").count() >= depth);
                if chain && depth > 1 {
                    wrong.push(format!("{}:{number}: leaves its module by super::", inside.display()));
                }
            }
        }
    }
    assert!(seen > 50, "only {seen} names found: does this test still read the sources right?");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_machine_and_its_memory_know_nothing_of_tasks() {
    let folder = root().join("alloc/src");
    let mut wrong = Vec::new();
    for path in sources(&folder) {
        for (number, line) in code(&path) {
            if line.contains("numart_runtime") || line.contains("numart::") {
                wrong.push(format!("{}:{number}: {line}", path.display()));
            }
            for name in named(&line, "crate::") {
                if !matches!(name.as_str(), "topology" | "sys" | "region" | "arena") {
                    wrong.push(format!("{}:{number}: names crate::{name}", path.display()));
                }
            }
            // The system calls are the lowest layer.
            if path.strip_prefix(&folder).unwrap().starts_with("sys") && line.contains("crate::topology") {
                let plain_words = named(&line, "crate::topology::");
                assert!(plain_words.iter().all(|name| name.starts_with(char::is_uppercase)), "{number}: {line}");
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The dependencies named in one table of a manifest.
fn dependencies(manifest: &str, table: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(manifest)).unwrap();
    let mut inside = false;
    let mut names = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            inside = line.trim() == table;
        } else if inside && !line.starts_with('#') && line.contains('=') {
            names.push(line.split(['=', '.', ' ']).next().unwrap().to_owned());
        }
    }
    names
}

/// numart -> rayon -> the drop-in rayon-core -> numart-runtime would be a cycle, which cargo refuses even for an optional
/// dependency.
#[test]
fn nothing_at_or_below_the_runtime_depends_on_rayon_or_upwards() {
    let runtime = dependencies("runtime/Cargo.toml", "[dependencies]");
    let alloc = dependencies("alloc/Cargo.toml", "[dependencies]");
    assert!(runtime.contains(&"numart-alloc".to_owned()), "{runtime:?}");
    for name in runtime.iter().chain(&alloc) {
        assert!(!name.contains("rayon") && name != "numart", "{name}");
    }
    assert!(!alloc.contains(&"numart-runtime".to_owned()));
}

/// The list that this test holds the sources against is the one in the documentation.
#[test]
fn the_list_is_the_documented_one() {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let at = text.find("Who may use whom").expect("docs/architecture.md says who may use whom");
    let rule: String = text[at..].split("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "`stats` reads all",
        "`runtime` ties together",
        "`task` uses `sched` (and `runtime` for the global one)",
        "`sched` knows a job header and no more",
        "`alloc` knows none of them",
    ] {
        assert!(rule.contains(part), "not in docs/architecture.md: {part}\n{rule}");
    }
    for (module, _) in MAY_USE {
        assert!(text.contains(&format!("  {module}")), "docs/architecture.md does not show {module}");
    }
}
