//! The only source of chance in the simulator: SplitMix64 with a fixed seed, so that a run can be repeated to the bit.

/// A small seeded generator (SplitMix64, Steele et al. 2014; public domain algorithm).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator whose whole future is given by `seed`.
    pub fn new(seed: u64) -> Self {
        // One step of distance between neighbouring seeds would correlate the first draws: mix first.
        let mut rng = Rng(seed ^ 0x6A09_E667_F3BC_C909);
        rng.next_u64();
        rng
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..n`; 0 for `n == 0`.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.next_u64() % n as u64) as usize }
    }

    /// Normal with the given mean and standard deviation (Box-Muller, one of the pair).
    pub fn normal(&mut self, mean: f64, sd: f64) -> f64 {
        let u = self.unit().max(1e-300);
        let v = self.unit();
        mean + sd * (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().max(1e-300).ln()
    }

    /// A random order of `items` (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}
