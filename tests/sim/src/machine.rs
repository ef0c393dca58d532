//! Machines to simulate: nodes, CPUs, L3 groups, distances, latencies and bandwidths.

use crate::constants::Constants;

/// A machine. All matrices are row-major, `from * nodes + to`.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Name for tables.
    pub name: &'static str,
    /// CPUs of each node; 0 for a memory-only node.
    pub cpus: Vec<usize>,
    /// L3 groups of each node.
    pub l3: Vec<usize>,
    /// Distances as the firmware would give them, 10 = local.
    pub distance: Vec<u16>,
    /// Latency of one line, microseconds.
    pub latency: Vec<f64>,
    /// Memory controller of each node, lines per microsecond.
    pub controller: Vec<f64>,
    /// Port of each node to the fabric, lines per microsecond and direction.
    pub port: Vec<f64>,
    /// Half of the machine (quad) a node belongs to: traffic between halves shares one connection.
    pub half: Vec<usize>,
    /// That connection, lines per microsecond and direction.
    pub cross: f64,
    /// Bytes of memory of each node.
    pub memory: Vec<u64>,
}

/// Bytes per second at which pages are migrated on the whole machine (issue 6: default 2 GB/s).
pub const MIGRATION_BYTES_PER_S: f64 = 2e9;

impl Machine {
    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.cpus.len()
    }

    /// CPUs of all nodes.
    pub fn total_cpus(&self) -> usize {
        self.cpus.iter().sum()
    }

    fn build(
        name: &'static str,
        cpus: Vec<usize>,
        c: &Constants,
        distance: impl Fn(usize, usize) -> u16,
        latency: impl Fn(usize, usize) -> f64,
    ) -> Machine {
        let n = cpus.len();
        let pairs = || (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
        Machine {
            name,
            l3: vec![1; n],
            distance: pairs().map(|(i, j)| distance(i, j)).collect(),
            latency: pairs().map(|(i, j)| latency(i, j)).collect(),
            controller: vec![c.controller; n],
            port: vec![c.port; n],
            half: vec![0; n],
            cross: f64::INFINITY,
            memory: vec![64 << 30; n],
            cpus,
        }
    }

    /// Seed 0's machine: 8 sockets x 10 cores in two quads of two pairs, the one the constants are fitted to.
    /// The mail names no distances; 10/12/17/19 are a DL980's order of magnitude and only their order matters.
    pub fn eight_by_ten(c: &Constants) -> Machine {
        let class = |i: usize, j: usize| {
            if i == j {
                0
            } else if i / 2 == j / 2 {
                1
            } else if i / 4 == j / 4 {
                2
            } else {
                3
            }
        };
        let mut m =
            Self::build("8x10", vec![10; 8], c, |i, j| [10, 12, 17, 19][class(i, j)], |i, j| c.latency_us[class(i, j)]);
        m.half = (0..8).map(|i| i / 4).collect();
        m.cross = c.quad;
        m
    }

    /// A machine whose latencies follow its distances (`local * distance / 10`), with controllers and ports that
    /// grow with the CPUs of a node, so that a node of any size is as well fed per CPU as seed 0's.
    pub fn by_distance(
        name: &'static str,
        cpus: Vec<usize>,
        c: &Constants,
        distance: impl Fn(usize, usize) -> u16 + Copy,
    ) -> Machine {
        let mut m = Self::build(name, cpus, c, distance, |i, j| c.latency_us[0] * f64::from(distance(i, j)) / 10.0);
        for i in 0..m.nodes() {
            let scale = m.cpus[i].max(5) as f64 / 10.0;
            m.controller[i] = c.controller * scale;
            m.port[i] = c.port * scale;
        }
        m
    }

    /// `nodes` nodes all at distance 21 from each other.
    pub fn direct(name: &'static str, nodes: usize, cpus: usize, c: &Constants) -> Machine {
        Self::by_distance(name, vec![cpus; nodes], c, |i, j| if i == j { 10 } else { 21 })
    }

    /// Seed 1's machine: 4 x 24 CPUs, distances 10/20/40 in pairs (a backplane).
    pub fn backplane_4x24(c: &Constants) -> Machine {
        Self::by_distance("4x24 10/20/40", vec![24; 4], c, |i, j| {
            if i == j {
                10
            } else if i / 2 == j / 2 {
                20
            } else {
                40
            }
        })
    }

    /// Seed 2's machine: two sockets of 64 CPUs with 8 L3 groups each, cut into `per_socket` nodes (1, 2 or 4).
    pub fn two_socket(per_socket: usize, c: &Constants) -> Machine {
        let name = match per_socket {
            1 => "NPS1",
            2 => "NPS2",
            _ => "NPS4",
        };
        let mut m = Self::by_distance(name, vec![64 / per_socket; 2 * per_socket], c, move |i, j| {
            if i == j {
                10
            } else if i / per_socket == j / per_socket {
                12
            } else {
                32
            }
        });
        m.l3 = vec![8 / per_socket; 2 * per_socket];
        m
    }
}
