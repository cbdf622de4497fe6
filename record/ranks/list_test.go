package ranks

import (
	"fmt"
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

// members lists the ranks below 20 that a list contains.
func members(l List, world uint32) string {
	var in []string
	for r := range uint32(20) {
		if l.Contains(r, world) {
			in = append(in, fmt.Sprint(r))
		}
	}
	return strings.Join(in, " ")
}

func TestListContains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		world uint32
		want  string
		needs bool
	}{
		{"0", 16, "0", false},
		{"0,8-11,last", 16, "0 8 9 10 11 15", true},
		{"0,8-11,last", 0, "0 8 9 10 11", true},
		{" 3 , 5-5 ", 0, "3 5", false},
		{"17-last", 19, "17 18", true},
		{"17-last", 0, "17 18 19", true},
		{"18-last", 4, "", true},
		{"last", 1, "0", true},
	} {
		l, err := ParseList(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if got := members(l, c.world); got != c.want || l.NeedsWorld() != c.needs || l.Empty() || l.String() != c.text {
			t.Errorf("%q of %d ranks is %q (needs their number: %t), want %q (%t)", c.text, c.world, got, l.NeedsWorld(), c.want, c.needs)
		}
	}
	if zero := (List{}); !zero.Empty() || zero.Contains(0, 1) {
		t.Error("the zero list is not empty")
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":            `"" is no list of ranks: a number is missing`,
		"1,,2":        `"1,,2" is no list of ranks: a number is missing`,
		"-1":          `"-1" is no list of ranks: a number is missing`,
		"5-":          `"5-" is no list of ranks: a number is missing`,
		"5-2":         `"5-2" is no list of ranks: the range 5-2 ends before it begins`,
		"last-5":      `"last-5" is no list of ranks: the range last-5 ends before it begins`,
		"first":       `"first" is no list of ranks: "first" is no rank`,
		"1-2-3":       `"1-2-3" is no list of ranks: "2-3" is no rank`,
		"+1":          `"+1" is no list of ranks: "+1" is no rank`,
		"4294967296":  `"4294967296" is no list of ranks: "4294967296" is no rank`,
		"0x10,\x1b[m": `"0x10,\x1b[m" is no list of ranks: "0x10" is no rank`,
	} {
		if _, err := ParseList(text); err == nil || err.Error() != want+": write ranks, ranges and \"last\", separated by commas, as in 0,8-15,last" {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzParseList(f *testing.F) {
	f.Add("0,8-15,last", uint32(3), uint32(16))
	f.Add("last-", uint32(3), uint32(0))
	f.Fuzz(func(t *testing.T, text string, rank, world uint32) {
		l, err := ParseList(text)
		if err != nil {
			return
		}
		if l.Empty() {
			t.Errorf("%q is empty", text)
		}
		if l.Contains(rank, 0) && !l.NeedsWorld() && !l.Contains(rank, world) {
			t.Errorf("%q contains %d only without the number of ranks", text, rank)
		}
	})
}
