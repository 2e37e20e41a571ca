//! Writes numbers.

/// Returns the digits of a number.
pub fn digits(n: u64) -> String {
    itoa::Buffer::new().format(n).to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_number_is_written() {
        assert_eq!(super::digits(1234), "1234");
    }
}
