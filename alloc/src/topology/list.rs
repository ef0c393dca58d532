//! The kernel's two ways of writing a set of numbers: lists ("0-3,8") and
//! masks ("00000000,000001ff").

use super::TopologyError;

/// One more than the highest CPU or node number that is read from text.
///
/// A wrong digit must not make us allocate gigabytes: each CPU keeps the set of
/// its core, so memory grows with the square. Twice what Linux can be built for,
/// 8,192 CPUs (`MAXSMP` on x86); nodes go to 1,024 (`NODES_SHIFT` 10).
pub(super) const MAX_NUMBER: u32 = 1 << 14;

/// Calls `each` for every inclusive range of a list. An empty list is valid:
/// it is what a node without CPUs shows.
pub(super) fn ranges(list: &str, mut each: impl FnMut(u32, u32)) -> Result<(), TopologyError> {
    let list = list.trim();
    if list.is_empty() {
        return Ok(());
    }
    let error = |item: &str, why| TopologyError::List { list: list.to_owned(), item: item.to_owned(), why };
    for item in list.split(',') {
        let item = item.trim();
        let (from, to) = item.split_once('-').unwrap_or((item, item));
        let (Some(from), Some(to)) = (number(from), number(to)) else {
            return Err(error(item, "is no number and no range of numbers"));
        };
        if to >= MAX_NUMBER {
            return Err(error(item, "goes beyond 16383"));
        }
        if from > to {
            return Err(error(item, "is a range that runs backwards"));
        }
        each(from, to);
    }
    Ok(())
}

/// Calls `each` for every bit of a mask: hexadecimal words of 32 bits, the
/// highest first, joined by commas.
pub(super) fn mask_bits(mask: &str, mut each: impl FnMut(u32)) -> Result<(), TopologyError> {
    let mask = mask.trim();
    let error = |item: &str, why| TopologyError::List { list: mask.to_owned(), item: item.to_owned(), why };
    for (i, word) in mask.rsplit(',').enumerate() {
        let Ok(bits) = u32::from_str_radix(word.trim(), 16) else {
            return Err(error(word, "is no hexadecimal word of 32 bits"));
        };
        for bit in (0..32).filter(|b| bits >> b & 1 == 1) {
            let number = i as u64 * 32 + bit;
            if number >= u64::from(MAX_NUMBER) {
                return Err(error(word, "goes beyond 16383"));
            }
            each(number as u32);
        }
    }
    Ok(())
}

/// A decimal number of digits only: `parse` alone would accept "+1".
pub(super) fn number(text: &str) -> Option<u32> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}
