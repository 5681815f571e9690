package where_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/where"
	"github.com/stretchr/testify/require"
)

// written returns what was read, with all its brackets.
func written(n *where.Node) string {
	var of []string
	for _, inner := range n.Of {
		of = append(of, written(inner))
	}
	for _, v := range n.Values {
		of = append(of, [...]string{"%s", "%q", "x'%s'"}[v.Form])
		of[len(of)-1] = fmt.Sprintf(of[len(of)-1], v.Text)
	}
	if n.Column != "" {
		return fmt.Sprintf("(%s %q %s)", n.Op, n.Column, strings.Join(of, " "))
	}
	return fmt.Sprintf("(%s %s)", n.Op, strings.Join(of, " "))
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		`a = 1`:                    `(= "a" 1)`,
		`a<>1`:                     `(not (= "a" 1))`,
		`a != -1.5e+3`:             `(not (= "a" -1.5e+3))`,
		`a<-1 And b>=.5 AND c<=+2`: `(and (< "a" -1) (>= "b" .5) (<= "c" +2))`,
		`celsius between 18 and 25 and device = "pump-7"`:            `(and (between "celsius" 18 25) (= "device" "pump-7"))`,
		`a not between 1 and 2 or b not in (1,2) or c NOT LIKE 'x%'`: `(or (not (between "a" 1 2)) (not (in "b" 1 2)) (not (like "c" "x")))`,
		`a = 1 or b = 2 and c = 3`:                                   `(or (= "a" 1) (and (= "b" 2) (= "c" 3)))`,
		`(a = 1 or b = 2) and c = 3`:                                 `(and (or (= "a" 1) (= "b" 2)) (= "c" 3))`,
		`not a = 1 and not not b = 2`:                                `(and (not (= "a" 1)) (not (not (= "b" 2))))`,
		`not (a is null or b is not nan)`:                            `(not (or (null "a" ) (not (nan "b" ))))`,
		"`part number` = 1 and `a``b` > 2 and `and` < 3":             "(and (= \"part number\" 1) (> \"a`b\" 2) (< \"and\" 3))",
		`a = 'it''s' and b = "say ""no"""`:                           `(and (= "a" "it's") (= "b" "say \"no\""))`,
		`a = "it's" and b = ''`:                                      `(and (= "a" "it's") (= "b" ""))`,
		`a = x'00FF' and b = X''`:                                    `(and (= "a" x'00FF') (= "b" x''))`,
		`a = TRUE and b = false`:                                     `(and (= "a" true) (= "b" false))`,
		`at >= 2024-02-29T12:00:00.5+01:00 and ip = 192.0.2.1`:       `(and (>= "at" 2024-02-29T12:00:00.5+01:00) (= "ip" 192.0.2.1))`,
		`a like '100\%\_\\%'`:                                        `(like "a" "100%_\\")`,
		`a like '%'`:                                                 `(like "a" "")`,
		`a like 'x'`:                                                 `(= "a" "x")`,
		`a like 'it''s%'`:                                            `(like "a" "it's")`,
		`a like '\%'`:                                                `(= "a" "%")`,
		`größe > 1 and x > 2 and null_ = 3 and a.b-c = 4`:            `(and (> "größe" 1) (> "x" 2) (= "null_" 3) (= "a.b-c" 4))`,
		"a\n=\t1 ": `(= "a" 1)`,
		strings.Repeat("(", 100) + "a=1" + strings.Repeat(")", 100):               `(= "a" 1)`,
		strings.Repeat("not (", 50) + "a=1 and b=2" + strings.Repeat(")", 50):     strings.Repeat("(not ", 50) + `(and (= "a" 1) (= "b" 2))` + strings.Repeat(")", 50),
		strings.Repeat("(", 100) + "a=1" + strings.Repeat(")", 100) + " or (a=2)": `(or (= "a" 1) (= "a" 2))`,
	} {
		n, err := where.Parse(text, false)
		require.NoError(t, err, text)
		require.Equal(t, want, written(n), text)
	}
}

// Errors say what to do, and show the place.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ text, at, message string }{
		{"", "", "a condition is needed here, such as: celsius between 18 and 25"},
		{"a", "", "an operator is needed here: =, !=, <, <=, >, >=, between, in, like or is; a boolean is compared with true or false: a = true"},
		{"a or b", "or b", "an operator is needed here: =, !=, <, <=, >, >=, between, in, like or is; a boolean is compared with true or false: a = true"},
		{"lower(a) = 'x'", "(", "an operator is needed here: =, !=, <, <=, >, >=, between, in, like or is; there are no functions"},
		{"a + 1 = 2", "+", "an operator is needed here: =, !=, <, <=, >, >=, between, in, like or is; there is no arithmetic"},
		{"a ilike 'x'", "ilike", "an operator is needed here: =, !=, <, <=, >, >=, between, in, like or is"},
		{"a == 1", "= 1", "leave this out: the operator is one ="},
		{"a =< 1", "<", "write <=, and not =<"},
		{"a => 1", ">", "write >=, and not =>"},
		{"a = 1 && b = 2", "&& b", "this character means nothing here: write and"},
		{"a = 1 || b = 2", "|| b", "this character means nothing here: write or; a text with this character is in quotation marks"},
		{"a = 1 and !b = 2", "!", "this character means nothing here: write not, or != between a column and a value"},
		{"a * 2 = 4", "*", "this character means nothing here: there is no arithmetic: compare a column with a value"},
		{"a = 02/29/2024", "/29", "this character means nothing here: there is no arithmetic: compare a column with a value; a date with this character is in quotation marks"},
		{"1=1", "1=1", "the name of a column is needed here, and a value after its operator; a name that begins with no letter is put in backquotes: `1`; for all rows give no condition"},
		{"true", "true", "the name of a column is needed here; one that is a keyword is put in backquotes: `true`; for all rows give no condition"},
		{"a = ", "", "a value is needed here: a number, a date, true, false, x'00ff', or a text in quotation marks"},
		{"a = b", "b", "a value is needed here: a number, a date, true, false, x'00ff', or a text in quotation marks; a text is 'b', and columns are not compared with each other"},
		{"a = null", "null", "nothing is equal to null, nor less or more: say is null, or is not null"},
		{"a <> NaN", "NaN", "nothing is equal to nan, nor less or more: say is nan, or is not nan"},
		{"a in (1, null)", "null", "nothing is equal to null, nor less or more: say is null, or is not null"},
		{"5 = a", "5", "the name of a column is needed here, and a value after its operator; a name that begins with no letter is put in backquotes: `5`"},
		{"in = 1", "in", "the name of a column is needed here; one that is a keyword is put in backquotes: `in`"},
		{"a = 1 b = 2", "b = 2", "and, or, or the end is needed here"},
		{"a >= 2024-02-29 12:00", "12:00", "and, or, or the end is needed here; a time with a blank in it is put in quotation marks"},
		{"a between 2024-02-29 12:00 and 2024-03-01", "12:00", "and is needed here, between the two bounds; a time with a blank in it is put in quotation marks"},
		{"a = 1, b = 2", ", b", "and, or, or the end is needed here"},
		{"(a = 1", "", ") is needed here, or and, or or"},
		{"a = 1)", ")", "and, or, or the end is needed here"},
		{"a not = 1", "=", "between, in or like is needed after not; any other condition is negated by not before it"},
		{"a is 1", "1", "null, nan, not null or not nan is needed here"},
		{"a is not", "", "null, nan, not null or not nan is needed here"},
		{"a between 1 or 2", "or", "and is needed here, between the two bounds"},
		{"a in 1", "1", "( is needed here, before the values"},
		{"a in ()", ")", "a value is needed here: a number, a date, true, false, x'00ff', or a text in quotation marks"},
		{"a in (1 2)", "2", ") is needed here, or a comma and another value"},
		{"a = 'x", "'x", "this quotation mark is not closed; inside, it is written twice"},
		{"a = x'x", "'x", "this quotation mark is not closed; inside, it is written twice"},
		{"a = 1; drop", "; drop", "this character means nothing here: leave it out: a condition has no sign at its end"},
		{"a = #1", "#1", "this character means nothing here; texts are in quotation marks, and names in backquotes if they have such characters"},
		{"a like 1", "1", "like takes a text in quotation marks with % at its end, as in 'pump%'"},
		{"a like '%x'", "%x", `like finds beginnings: it takes one %, at the end, and no _; write \% for the character itself`},
		{"a like 'x_'", "_'", `like finds beginnings: it takes one %, at the end, and no _; write \_ for the character itself`},
		{`a like 'x\'`, `\'`, `a backslash stands before %, _ or another backslash`},
		{`a like 'x\y'`, `\y`, `a backslash stands before %, _ or another backslash`},
		{strings.Repeat("(", 101) + "a=1" + strings.Repeat(")", 101), "(a", "there are more than 100 brackets and negations in each other"},
		{strings.Repeat("not (", 50) + "not a=1" + strings.Repeat(")", 50), "", "there are more than 100 brackets and negations in each other"},
		{strings.Repeat("not ", 5000) + "a=1", "", "there are more than 100 brackets and negations in each other"},
		{strings.Repeat("a=1 or ", 10_000), "", "a condition has at most 65536 bytes, and this has 70000"},
	} {
		_, err := where.Parse(c.text, false)
		require.Error(t, err, c.text)
		message, place, _ := strings.Cut(err.Error(), "\n")
		require.Equal(t, c.message, message, c.text)
		if len(c.text) < 30 {
			at := len(c.text)
			if c.at != "" {
				at = strings.LastIndex(c.text, c.at)
			}
			require.Equal(t, "  "+c.text+"\n  "+strings.Repeat(" ", at)+"^", place)
		}
	}
}

// With a decimal comma, a number may have one. A list of numbers needs quotation marks or blanks.
func TestDecimalComma(t *testing.T) {
	for text, want := range map[string][]string{
		"a > 1,5":                          {"1,5"},
		"(a = -12,50)":                     {"-12,50"},
		"a between +0,1 and 1,5e-3":        {"+0,1", "1,5e-3"},
		"a in (1, 5, -2)":                  {"1", "5", "-2"},
		"a in ('1,5', 2 ,3, 4)":            {"1,5", "2", "3", "4"},
		"a in (2024-02-29,2024-03-01,'x')": {"2024-02-29", "2024-03-01", "x"},
		"a in (1.5,2)":                     {"1.5", "2"},
		"a >= 1.5":                         {"1.5"},
	} {
		n, err := where.Parse(text, true)
		require.NoError(t, err, text)
		var got []string
		for _, v := range n.Values {
			got = append(got, v.Text)
		}
		require.Equal(t, want, got, text)
	}
	const (
		between = "with --decimal-comma this is one number or two: put a number with a fraction in quotation marks, as '1,5', and a blank between two numbers, as 1, 5"
		digits  = "and, or, or the end is needed here; a number has only digits on both sides of its comma, and no blanks: 12,50"
	)
	for _, c := range []struct{ text, message string }{
		{"a in (1,5)", between}, {"a in (1 , 2,5)", between}, {"a not in ('1,5', 2, 3,4)", between},
		{"a > 1 ,5", digits}, {"a > 1, 5", digits}, {"a > 1.234,5", digits}, {"a > 1,5,6", digits}, {"a > 1,-5", digits},
	} {
		_, err := where.Parse(c.text, true)
		require.Error(t, err, c.text)
		at := strings.LastIndex(c.text, ",")
		require.Equal(t, c.message+"\n  "+c.text+"\n  "+strings.Repeat(" ", at)+"^", err.Error())
	}
	_, err := where.Parse("a > 12,50", false)
	require.ErrorContains(t, err, "and, or, or the end is needed here; a number has a point before its fraction, or a comma with --decimal-comma\n")
	n, err := where.Parse("a in (1,5)", false)
	require.NoError(t, err)
	require.Len(t, n.Values, 2)
}

// Only the part around the place is shown, in characters, of which none moves the cursor.
func TestPlaces(t *testing.T) {
	_, err := where.Parse("größe = '日本' and\n\x1b[31mb = 1", false)
	require.EqualError(t, err, "this character means nothing here; texts are in quotation marks, and names in backquotes if they have such characters\n"+
		"  größe = '日本' and .[31mb = 1\n"+
		"                     ^")
	_, err = where.Parse("a = 'M\xfcller'", false)
	require.EqualError(t, err, "this is not in UTF-8, which all texts of a table are: write the condition in UTF-8\n"+
		"  a = 'M.ller'\n"+
		"        ^")
	_, err = where.Parse(strings.Repeat("a = 1 and ", 20)+"b ! 1"+strings.Repeat(" and a = 1", 20), false)
	require.ErrorContains(t, err, "\n"+
		"  ...= 1 and a = 1 and a = 1 and b ! 1 and a = 1 and a = 1 and a ...\n"+
		"                                   ^")
}

// Whatever is read: it ends, and what is taken can be read again with all its brackets.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`celsius between 18 and 25 and device = "pump-7"`, "a != 'x''y' or not (`b c` in (1, -2.5e3, x'00', true))",
		`a like 'x\%%' and b is not null and c is nan`, "((((", "not not not", "x'", `"`, "a = \xff", "ａ = １", strings.Repeat("(", 200),
	} {
		f.Add(text)
	}
	f.Add("a > 1,5 and b in ('1,5', 2, -3) and c between -1,5e3 and +0,1")
	f.Fuzz(func(t *testing.T, text string) {
		fuzzParse(t, text, false)
		fuzzParse(t, text, true)
	})
}

func fuzzParse(t *testing.T, text string, comma bool) {
	n, err := where.Parse(text, comma)
	if err != nil {
		require.Contains(t, err.Error(), "^")
		return
	}
	again, err := where.Parse(asText(n), comma)
	if err == nil {
		require.Equal(t, written(n), written(again))
	} else { // brackets around all
		require.ErrorContains(t, err, "more than")
	}
}

// asText returns a text that reads as n.
func asText(n *where.Node) string {
	var of []string
	for _, inner := range n.Of {
		of = append(of, "("+asText(inner)+")")
	}
	var values []string
	for _, v := range n.Values {
		switch v.Form {
		case where.Quoted:
			v.Text = `"` + strings.ReplaceAll(v.Text, `"`, `""`) + `"`
		case where.Hex:
			v.Text = "x'" + v.Text + "'"
		}
		values = append(values, v.Text)
	}
	column := "`" + strings.ReplaceAll(n.Column, "`", "``") + "` "
	switch n.Op {
	case where.And, where.Or:
		return strings.Join(of, " "+string(n.Op)+" ")
	case where.Not:
		return "not " + of[0]
	case where.IsNull, where.IsNaN:
		return column + "is " + string(n.Op)
	case where.Between:
		return column + "between " + values[0] + " and " + values[1]
	case where.In:
		return column + "in (" + strings.Join(values, ", ") + ")"
	case where.Prefix:
		text := strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(values[0])
		return column + "like " + text[:len(text)-1] + `%"`
	}
	return column + string(n.Op) + " " + values[0]
}
