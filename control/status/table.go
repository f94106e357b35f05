package status

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// table writes rows in columns two spaces apart.
type table struct{ w *tabwriter.Writer }

// newTable begins a table, with a line of headings if there are any.
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
