//! Text tables: right-aligned columns under their heads.

/// Formats rows under `head`, each column as wide as necessary; the first is left-aligned.
#[must_use]
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let cells =
        |i: usize| std::iter::once(head[i].chars().count()).chain(rows.iter().map(move |r| r[i].chars().count()));
    let widths: Vec<_> = (0..head.len()).map(|i| cells(i).max().unwrap_or(0)).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<_> = cells
            .zip(&widths)
            .enumerate()
            .map(|(i, (c, w))| if i == 0 { format!("{c:<w$}") } else { format!("{c:>w$}") })
            .collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut head.iter().copied());
    for row in rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".into(), "1".into()], vec!["bbb".into(), "22222".into()]];
        assert_eq!(super::table(&["x", "µs"], &rows), "x       µs\na        1\nbbb  22222\n");
    }
}
