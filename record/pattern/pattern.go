// Package pattern has the patterns that people write for names: of calls, kernels and callers, and of NVTX ranges with
// their domains and numbers. The injected library matches NVTX ranges by the same rules
// (record/internal/cupti/inject/range.c).
package pattern

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Ranges selects NVTX ranges by name and domain: for a filter, for a recording, as the steps of a program. Both parts
// are globs, as of [Match]. The zero Ranges selects none.
type Ranges struct {
	Name   string // of the range, with or without its number and what follows a comma
	Domain string // the default domain has the empty name
}

// ParseRanges reads NAME or NAME@DOMAIN. Without a domain any domain is meant. The last @ counts, as a name may have
// one itself.
func ParseRanges(text string) (g Ranges, err error) {
	g = Ranges{Name: text, Domain: "*"}
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		g.Name, g.Domain = text[:i], text[i+1:]
	}
	if g.Name == "" {
		return g, errors.New("it lacks the name of a range")
	}
	for _, part := range []string{g.Name, g.Domain} {
		if err := Check(part); err != nil {
			return g, err
		}
	}
	return g, nil
}

// None reports whether nothing is selected.
func (g Ranges) None() bool { return g.Name == "" }

func (g Ranges) String() string {
	if g.Domain == "*" {
		return g.Name
	}
	return g.Name + "@" + g.Domain
}

// Match reports whether a range is selected: "step" selects the ranges "step", "step 7", and "step 7, loss".
func (g Ranges) Match(name, domain string) bool {
	if g.None() || g.Domain != "*" && !Match(g.Domain, domain) {
		return false
	}
	if Match(g.Name, name) {
		return true
	}
	bare, _, _ := strings.Cut(name, ",")
	stem, _ := Stem(name)
	return bare != name && Match(g.Name, bare) || stem != bare && Match(g.Name, stem)
}

// Numbers selects ranges by their numbers: Count of them, from First on. The zero Numbers selects all ranges.
type Numbers struct {
	First uint64
	Count uint32
}

func (n Numbers) String() string {
	if n.Count == 1 {
		return strconv.FormatUint(n.First, 10)
	}
	return fmt.Sprintf("%d-%d", n.First, n.First+uint64(n.Count)-1)
}

// Counted is the number of a range whose name has none: steps without numbers are counted from 0 in each process.
const Counted = -1

// mostDigits is the length of the longest number that numbers a range.
const mostDigits = 10

// Stem splits the name of a range: "step 7", "step_7" and "step#7, loss" are range 7 of the stem "step". PyTorch adds
// further facts behind a comma. A name without a number at its end has the number Counted.
func Stem(name string) (stem string, number int64) {
	bare, _, _ := strings.Cut(name, ",")
	stem = strings.TrimRight(bare, "0123456789")
	number, err := strconv.ParseInt(bare[len(stem):], 10, 64)
	if len(bare)-len(stem) > mostDigits || err != nil {
		return bare, Counted
	}
	if stem = strings.TrimRight(stem, " _-#:=./"); stem == "" {
		return bare, Counted
	}
	return stem, number
}

// noSlash makes the * of a glob match slashes too, since a name is not a path.
var noSlash = strings.NewReplacer("/", "\x00")

// Match reports whether a glob matches a whole name: * is any text, ? a character, [a-z] one of some characters, [^a-z]
// one of the others, and \ takes the next character as it is.
func Match(glob, name string) bool {
	ok, err := path.Match(noSlash.Replace(glob), noSlash.Replace(name))
	return ok && err == nil
}

// Check returns why a text is no glob.
func Check(glob string) error {
	if _, err := path.Match(glob, ""); err != nil {
		return errors.New(`a [ lacks its ], or nothing follows a \`)
	}
	return nil
}
