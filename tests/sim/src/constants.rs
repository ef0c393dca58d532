//! The constants of the machine model: fitted to seed 0 once, then frozen. Two sets, and every claim must hold under both.
//!
//! Nobody may change these while tuning the policy: `tests/model.rs` pins both sets to the digit and checks the fit.

/// One set of model constants. Times in microseconds, traffic in 64-byte lines, bandwidths in lines per microsecond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Name printed with every table.
    pub name: &'static str,
    /// CPU time of one transaction, without waiting for memory.
    pub cpu_us: f64,
    /// Lines of a transaction that miss the caches and belong to the task's private memory.
    pub private_lines: f64,
    /// Lines of a transaction that miss the caches and belong to the instance's shared memory.
    pub shared_lines: f64,
    /// Latency of one line on an idle machine: own node, node of the same pair, of the same quad, of the other quad.
    pub latency_us: [f64; 4],
    /// What one node's memory controller serves.
    pub controller: f64,
    /// What one node's port to the fabric carries, each direction.
    pub port: f64,
    /// What the connection between the two quads carries, each direction.
    pub quad: f64,
    /// Time a transaction loses per node of instance width beyond the first: serial work, collection, sharing in
    /// software. No placement can change it.
    pub width_us: f64,
    /// Share of CPU time lost when the operating system places threads: one CPU idle while another holds two.
    pub idle_loss: f64,
    /// Share of the private lines that are local wherever the task runs: memory it allocated a moment ago.
    pub sticky: f64,
}

impl Constants {
    /// All numbers on one line, to be printed above every table.
    pub fn line(&self) -> String {
        let l = self.latency_us;
        format!(
            "model {}: cpu {:.3} us; lines {:.1} private, {:.1} shared; latency {:.3}/{:.3}/{:.3}/{:.3} us; controller {:.1}, port {:.1}, quad {:.1} lines/us; width {:.3} us; idle loss {:.3}; sticky {:.3}",
            self.name,
            self.cpu_us,
            self.private_lines,
            self.shared_lines,
            l[0],
            l[1],
            l[2],
            l[3],
            self.controller,
            self.port,
            self.quad,
            self.width_us,
            self.idle_loss,
            self.sticky
        )
    }
}

/// First set: controllers at 0.49 of their bandwidth in pinned I, 9 % of the traffic shared. Worst error 0.017.
pub const MODEL_A: Constants = Constants {
    name: "A",
    cpu_us: 8.375,
    private_lines: 188.2,
    shared_lines: 17.8,
    latency_us: [0.090, 0.156, 0.156, 0.286],
    controller: 117.0,
    port: 75.4,
    quad: 115.3,
    width_us: 6.773,
    idle_loss: 0.068,
    sticky: 0.097,
};

/// Second set: controllers at 0.60, 28 % of the traffic shared, little else in common. Worst error 0.019.
pub const MODEL_B: Constants = Constants {
    name: "B",
    cpu_us: 2.387,
    private_lines: 40.0,
    shared_lines: 15.6,
    latency_us: [0.090, 0.206, 0.206, 0.514],
    controller: 77.4,
    port: 234.3,
    quad: 401.0,
    width_us: 2.031,
    idle_loss: 0.008,
    sticky: 0.029,
};

/// Both sets, in the order they are printed.
pub const MODELS: [Constants; 2] = [MODEL_A, MODEL_B];
