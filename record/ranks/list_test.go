package ranks

import (
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for want, numbers := range map[string][]uint32{"": nil, "3": {3}, "0-1": {0, 1}, "0-2, 5, 7-8": {0, 1, 2, 5, 7, 8}} {
		if got := Words(numbers); got != want {
			t.Errorf("%v: %q, want %q", numbers, got, want)
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]uint32{
		"0":             {0},
		"last":          {15},
		"0,8-10,last":   {0, 8, 9, 10, 15},
		" 3 , 5-5,last": {3, 5, 15},
		"14-20":         {14, 15},
		"16":            nil,
		"14-last":       {14, 15},
	} {
		l, err := ParseList(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var got []uint32
		for n := range uint32(16) {
			if l.Has(Rank{Number: n, Of: 16, Known: true}) {
				got = append(got, n)
			}
		}
		if Words(got) != Words(want) {
			t.Errorf("%q: %s, want %s", text, Words(got), Words(want))
		}
		if !l.Has(Rank{}) || l.Empty() {
			t.Errorf("%q leaves out what has no rank, or nothing", text)
		}
	}
	if all := (&List{}); !all.Empty() || !all.Has(Rank{Number: 3, Known: true}) {
		t.Error("the zero list does not choose all")
	}
}

func TestListErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", ",", "0,", "a", "1-", "-1", "5-3", "1-2-3", "99999999999", "0;1"} {
		if l, err := ParseList(text); err == nil || !strings.Contains(err.Error(), "0,8-15,last") {
			t.Errorf("%q: %+v, %v", text, l, err)
		}
	}
}

// A list that can choose nothing is doubted.
func TestDoubt(t *testing.T) {
	t.Parallel()
	of := func(n uint32) Rank { return Rank{Of: n, Known: true} }
	for _, test := range []struct {
		list, doubt string
		rank        Rank
	}{
		{"0", "", of(8)},
		{"8-15", "the ranks are 0-7", of(8)},
		{"8-15,last", "", of(8)},
		{"8-15", "", of(0)},
		{"8-15", "", Rank{}},
		{"last", "nothing says how many ranks there are, so 'last' by itself chooses none", of(0)},
	} {
		l, err := ParseList(test.list)
		if got := l.Doubt(test.rank); got != test.doubt || err != nil {
			t.Errorf("%s, %+v: %q, %v", test.list, test.rank, got, err)
		}
	}
}
