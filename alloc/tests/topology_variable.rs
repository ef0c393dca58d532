//! `NUMART_TOPOLOGY`, in child processes: a process must not change its own
//! environment while other threads read it.

use numart_alloc::topology::Topology;
use std::process::Command;

/// What `detect` gives with that value, as text or as error message.
fn detect(value: Option<&str>) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child_detects", "--ignored", "--nocapture"]);
    child.env_remove("NUMART_TOPOLOGY");
    if let Some(value) = value {
        child.env("NUMART_TOPOLOGY", value);
    }
    let output = child.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let out = String::from_utf8(output.stdout).unwrap();
    let (_, rest) = out.split_once("BEGIN\n").unwrap();
    rest.split_once("END\n").unwrap().0.to_owned()
}

#[test]
#[ignore = "runs as a child of the other tests"]
fn child_detects() {
    match Topology::detect() {
        Ok(t) => print!("\nBEGIN\nmock {}\n{}END\n", t.is_mock(), t.to_text()),
        Err(error) => print!("\nBEGIN\n{error}END\n"),
    }
}

#[test]
fn without_it_this_machine_is_used() {
    let machine = Topology::this_machine().unwrap().to_text();
    let detected = detect(None);
    let (head, detected) = detected.split_once('\n').unwrap();
    assert_eq!(head, "mock false");
    // Without memory sizes: a virtual machine's may change in between.
    let steady = |text: &str| -> Vec<String> {
        let node = |l: &str| l.split(" memory").next().unwrap().to_owned();
        text.lines().map(node).collect()
    };
    assert_eq!(steady(detected), steady(&machine));
}

#[test]
fn with_a_shape_there_are_mock_nodes() {
    let mock = Topology::parse("4x2").unwrap().to_text();
    assert_eq!(detect(Some("4x2")), format!("mock true\n{mock}"));
}

#[test]
fn errors_name_the_variable_its_value_and_the_remedy() {
    for value in ["", "0x2", "no/such/file", "node 0 cpus 0\nnode 1 cpus 0"] {
        let error = detect(Some(value));
        assert!(error.starts_with(&format!("NUMART_TOPOLOGY=\"{value}\": ")), "{error}");
        assert!(error.ends_with("unset NUMART_TOPOLOGY to use this machine as it is"), "{error}");
    }
}
