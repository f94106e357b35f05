package status

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// table writes rows in aligned columns, two spaces apart.
type table struct{ w *tabwriter.Writer }

// newTable begins a table with an optional line of headings.
func newTable(w io.Writer, headings ...any) *table {
	t := &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(headings) > 0 {
		t.row(headings...)
	}
	return t
}

func (t *table) row(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(t.w, "\t")
		}
		fmt.Fprint(t.w, c)
	}
	fmt.Fprintln(t.w)
}

func (t *table) flush() error { return t.w.Flush() }

// count writes a number and its noun: "1 worker", "2 workers".
func count[N int | int64 | uint64](n N, noun string) string { return counted(n, noun, noun+"s") }

// counted is like count, for irregular plurals.
func counted[N int | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
