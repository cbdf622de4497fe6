package kernelnames

import (
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/record/figures"
)

// Bounds of a name that is read. Longer ones are cut.
const (
	longestName = 1 << 16
	longestHead = 1 << 9
)

// compiled are the patterns of the rules.
var compiled = sync.OnceValue(func() []*regexp.Regexp {
	list := make([]*regexp.Regexp, len(rules))
	for i := range rules {
		list[i] = regexp.MustCompile(`^(?:` + rules[i].pattern + `)$`)
	}
	return list
})

// ruleOf is the rule of a name, and what its groups matched; nil without one.
func ruleOf(n *node) (*rule, []string) {
	head := n.head()
	if len(head) > longestHead {
		return nil, nil
	}
	for i, pattern := range compiled() {
		if groups := pattern.FindStringSubmatch(head); groups != nil {
			return &rules[i], groups
		}
	}
	return nil, nil
}

// shorten is the name of a kernel for people, which others may have too. It may be long.
func shorten(plain string) string {
	if len(plain) > longestName {
		return figures.Clean(figures.Cut(plain, Width))
	}
	return figures.Clean(parse(plain).display())
}

// apart are the texts that tell a kernel from others of its name.
func apart(plain string) (list []string) {
	if len(plain) > longestName {
		return nil
	}
	n := parse(plain)
	for inner := n.inner(); inner != nil; inner = n.inner() {
		n = inner
	}
	r, groups := ruleOf(n)
	if r == nil {
		return nil
	}
	for _, form := range r.apart {
		list = append(list, n.expand(form, groups))
	}
	return list
}

// inner is the argument that a kernel has its name of, nil for another kernel.
func (n *node) inner() *node {
	if r, _ := ruleOf(n); r != nil && strings.HasSuffix(r.short, "{inner 0}") {
		return n.at("0")
	}
	return nil
}

// display is what the rule of a name makes of it.
func (n *node) display() string {
	if r, groups := ruleOf(n); r != nil {
		if short := n.expand(r.short, groups); short != "" {
			return short
		}
	}
	if utf8.RuneCountInString(n.text) <= Width || len(n.parts) == 0 {
		return n.text
	}
	name := plainName(n.last().name)
	if simple := n.simple(); utf8.RuneCountInString(simple) <= Width {
		return simple
	}
	if t := firstType(n.last().args); t != "" {
		return name + "<" + t + ">"
	}
	return name
}

var verb = regexp.MustCompile(`\$\d|\{[^{}]*\}`)

// expand writes a form of a rule: see [rule].
func (n *node) expand(form string, groups []string) string {
	s := verb.ReplaceAllStringFunc(form, func(v string) string {
		if v[0] == '$' {
			return groups[v[1]-'0']
		}
		fields := strings.Fields(v[1 : len(v)-1])
		var given []string
		for _, f := range fields[1:] {
			if f[0] == '$' {
				f = groups[f[1]-'0']
			}
			given = append(given, f)
		}
		return n.verb(fields[0], given)
	})
	for _, empty := range [][2]string{{"<>", ""}, {"<, ", "<"}, {", >", ">"}, {"<>", ""}, {" ()", ""}, {"  ", " "}} {
		s = strings.ReplaceAll(s, empty[0], empty[1])
	}
	return strings.Trim(s, " _")
}

func (n *node) verb(name string, given []string) string {
	args := n.last().args
	switch name {
	case "op":
		if of := operationOf(args); of != nil {
			op, _ := of.operation()
			return op
		}
		return ""
	case "type":
		if of := operationOf(args); of != nil {
			if _, t := of.operation(); t != "" {
				return t
			}
		}
		return firstType(args)
	case "name":
		if len(given) == 0 {
			return plainName(n.last().name)
		}
		if of := n.at(given[0]); of != nil {
			return plainOperation(of.last().name)
		}
		return ""
	case "if":
		if of := n.at(given[0]); of != nil && of.text == "true" {
			return given[1]
		}
		return ""
	case "has":
		if strings.Contains(n.text, given[0]) {
			return given[1]
		}
		return ""
	case "code":
		code := ""
		for _, g := range given {
			if known, is := codes[g]; is {
				code = known
			}
		}
		if code == "" {
			code = strings.Join(given, " ")
		}
		return code
	case "words":
		return strings.Trim(strings.ReplaceAll(given[0], "_", " "), " ")
	case "snake":
		return strings.ToLower(capital.ReplaceAllString(given[0], "${1}${3}_${2}${4}"))
	case "inner":
		if of := n.at(given[0]); of != nil {
			return of.display()
		}
		return ""
	}
	if of := n.at(name); of != nil {
		return of.simple()
	}
	return ""
}
