//! KVM or emulation.
//!
//! `/dev/kvm` may be there and yet not run a guest (nested virtualisation that is half there: the guest hangs at boot). So
//! the first run tries: a guest that powers off at once, with a short limit. What came of it is remembered for this boot
//! of this machine. `NUMART_GUEST_ACCEL=kvm` or `tcg` decides without a trial.

use std::time::Duration;

use crate::boot::{self, Guest, Program};
use crate::error::Error;
use crate::kernel;
use crate::machine::Machine;

const VARIABLE: &str = "NUMART_GUEST_ACCEL";
/// A guest under a KVM that works is up in two seconds.
const TRIAL: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    Kvm,
    Tcg,
}

impl Accelerator {
    fn from_name(name: &str) -> Option<Accelerator> {
        match name.trim() {
            "kvm" => Some(Accelerator::Kvm),
            "tcg" => Some(Accelerator::Tcg),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg => "tcg",
        }
    }

    /// What to use here.
    pub fn choose() -> Result<Accelerator, Error> {
        if let Some(value) = std::env::var_os(VARIABLE) {
            let value = value.to_string_lossy();
            return Accelerator::from_name(&value)
                .ok_or_else(|| Error::Description(format!("{VARIABLE}={value}: kvm and tcg are what there is")));
        }
        let openable = std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
        if !openable {
            return Ok(Accelerator::Tcg);
        }
        // Another boot may have another hypervisor below it.
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let note = kernel::cache()?.join(format!("accelerator-{}", boot.trim()));
        if let Some(known) = std::fs::read_to_string(&note).ok().and_then(|name| Accelerator::from_name(&name)) {
            return Ok(known);
        }
        let found = if Accelerator::kvm_works()? { Accelerator::Kvm } else { Accelerator::Tcg };
        eprintln!(
            "guest: KVM {}",
            if found == Accelerator::Kvm { "works" } else { "does not run a guest here: emulating" }
        );
        std::fs::write(&note, found.name()).map_err(|error| Error::file(&note, &error))?;
        Ok(found)
    }

    fn kvm_works() -> Result<bool, Error> {
        eprintln!("guest: trying KVM, for at most {} s, once", TRIAL.as_secs());
        let machine = Machine::parse("trial", "node 0 cpus 0 memory 256M").expect("a right description");
        let guest = Guest {
            machine: &machine,
            accelerator: Accelerator::Kvm,
            programs: vec![Program::command("busybox true")],
            environment: Vec::new(),
            folders: Vec::new(),
            limit: TRIAL,
        };
        match boot::run(&guest, &mut |_| ()) {
            Ok(ended) => Ok(ended.codes == [0]),
            Err(Error::TimeLimit { .. } | Error::NoStatus { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
