use super::*;

const PLAIN: Columns<'static> = Columns {
    label: Some("y"),
    client: Some("site"),
    features: None,
    ignore: &[],
    one_hot: &[],
    group: None,
    cell: None,
    held: None,
    missing: Missing::Error,
    identity: None,
    binary: true,
};

fn table(text: &str, columns: &Columns<'_>) -> Result<TableFile, String> {
    read(Path::new("t.csv"), text.as_bytes(), columns).map_err(|wrong| wrong.message)
}

#[test]
fn columns_are_told_apart() {
    let ignore = ["id".to_string()];
    let columns = Columns { ignore: &ignore, ..PLAIN };
    let table = table("id,a,y,site,b\nu1,1,0,x,2\nu2,3,1,y,4\n", &columns).unwrap().raw;
    assert_eq!(table.features, ["a", "b"]);
    assert_eq!(table.values, [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(table.labels, [0.0, 1.0]);
    assert_eq!(table.clients.unwrap(), ["x", "y"]);
}

#[test]
fn messages_name_line_and_column() {
    for (text, parts) in [
        ("a,y,site\n1,0,x\n1,1\n", vec!["t.csv: line 3", "2 cells"]),
        ("a,y,site\n1,0,x\ntwo,1,x\n", vec!["line 3", "\"a\"", "\"two\""]),
        ("a,y,site\n1,0,x\ninf,1,x\n", vec!["line 3", "\"a\"", "inf"]),
        ("a,y,site\n1,0,x\n,1,x\n", vec!["line 3", "\"a\"", "missing = \"drop\""]),
        ("a,b,site\n1,0,x\n", vec!["label", "\"y\"", "a, b, site"]),
        ("a,y,site\n1,0,x\n2,0,x\n", vec!["both classes"]),
        ("a,y,site\n1,0,x\n2,3,x\n", vec!["line 3", "0 or 1"]),
        ("a,a,y,site\n1,1,0,x\n", vec!["two columns"]),
        ("1,2,3\n1,0,1\n", vec!["header"]),
        ("a,y,site\n", vec!["no rows"]),
        ("a,y,site\n1,no,x\n", vec!["line 2", "\"y\"", "\"no\"", "0 or 1"]),
        ("a;y;site\n0,5;1;x\n", vec!["line 2", "\"0,5\"", "decimal point"]),
        ("a,y,site\ntwo,1,x\n", vec!["ignore = [\"a\"]", "one_hot = [\"a\"]"]),
    ] {
        for text in [text.to_string(), text.replace('\n', "\r\n")] {
            let message = table(&text, &PLAIN).unwrap_err();
            assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        }
    }
}

#[test]
fn cells_are_told_apart_whatever_is_between_them() {
    for between in [",", ";", "\t", "|"] {
        let text = "a,y,site,b\n1,0,x,2\n3,1,y,4\n".replace(',', between);
        let table = table(&text, &PLAIN).unwrap().raw;
        assert_eq!((table.features.len(), table.values), (2, vec![1.0, 2.0, 3.0, 4.0]));
    }
}

#[test]
fn rows_with_missing_cells_can_be_dropped() {
    let text = "a,y,site\n1,0,x\nNA,1,x\n3,,x\n,1,\n5,1,z\n";
    let columns = Columns { missing: Missing::Drop, ..PLAIN };
    let table = table(text, &columns).unwrap();
    assert_eq!(table.raw.values, [1.0, 5.0]);
    let missing: Vec<_> = table.missing.iter().map(|m| (m.column.as_str(), m.cells)).collect();
    assert_eq!((table.rows, missing), (5, vec![("a", 2), ("y", 1), ("site", 1)]));
}

#[test]
fn missing_features_can_be_left_to_be_filled() {
    let text = "a,y,site\n1,0,x\nNA,1,x\n3,,x\n,1,\n5,1,z\n";
    let columns = Columns { missing: Missing::Mean, ..PLAIN };
    let table = table(text, &columns).unwrap();
    let known: Vec<_> = table.raw.values.iter().map(|x| (!x.is_nan()).then_some(*x)).collect();
    assert_eq!(known, [Some(1.0), None, Some(5.0)]);
    assert!(table.marks.fill);
}

#[test]
fn text_becomes_columns_of_zeros_and_ones() {
    let text = "a,job,y,site\n1,smith,0,x\n2,baker,1,x\n3,,1,x\n4,tailor,0,x\n";
    let one_hot = ["job".to_string()];
    let columns = Columns { missing: Missing::Mean, one_hot: &one_hot, ..PLAIN };
    let table = table(text, &columns).unwrap();
    assert_eq!(table.raw.features, ["a", "job=smith", "job=tailor"]);
    let values: Vec<String> = table.raw.values.iter().map(f64::to_string).collect();
    assert_eq!(values.join(" "), "1 1 0 2 0 0 3 NaN NaN 4 0 1");
    assert_eq!(table.encodings[1].values.as_ref().unwrap(), &["baker", "smith", "tailor"]);
}

#[test]
fn groups_and_held_rows_are_marked() {
    let text = "a,sex,part,y,site\n1,f,train,0,x\n2,m,test,1,x\n3,,train,1,x\n";
    let ignore = ["sex".to_string()];
    let held = Some(Held { column: "part", value: "test" });
    let columns = Columns { ignore: &ignore, group: Some("sex"), held, ..PLAIN };
    let read = table(text, &columns).unwrap();
    assert_eq!(read.raw.features, ["a"]);
    assert_eq!(read.marks.groups.unwrap(), ["f", "m", "missing"]);
    assert_eq!(read.marks.held.unwrap(), [false, true, false]);
    let held = Some(Held { column: "part", value: "Test" });
    let said = table(text, &Columns { held, ..columns }).unwrap_err();
    assert!(said.contains("no row has \"Test\" in the column \"part\""), "{said}");
}
