package guest

import "testing"

func TestRunSelectsSubtestsInTheGuest(t *testing.T) {
	for _, c := range [][3]string{
		{"TestA", "", "^TestA$"}, {"TestA", "Test", "^TestA$"}, {"TestA", "Test/b.*/c", "^TestA$/b.*/c"},
		{"TestA/b", "Test/b", "^TestA/b$"}, {"TestA/b", "TestA/b/c", "^TestA/b$/c"}, {"TestA/b", "Test", "^TestA/b$"},
	} {
		if got := runPattern(c[0], c[1]); got != c[2] {
			t.Errorf("%s with -run %s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}
