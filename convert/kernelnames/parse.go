package kernelnames

import "strings"

// A node is a name or a type of C++: parts between ::, without return type, qualifiers and pointers.
type node struct {
	parts []part
	text  string
}

// A part is an identifier with its template arguments, and its parameters where it is a function.
type part struct {
	name         string
	args, params []*node
}

// lambda is the name of a part that is a lambda.
const lambda = "'lambda'"

// Bounds of a name that is hostile.
const (
	deepest     = 60      // depth of brackets; deeper ones are skipped
	longestPart = 1 << 10 // bytes of an identifier
)

// A parser reads a demangled name once, from left to right. It takes any text: what it does not know is part of a
// name.
type parser struct {
	s  string
	at int
}

func parse(s string) *node {
	p := parser{s: s}
	return p.node(0)
}

// node reads up to the end of a template argument or a parameter.
func (p *parser) node(depth int) *node {
	n, cur, start := new(node), part{}, p.at
	push := func() {
		if cur.name != "" {
			n.parts = append(n.parts, cur)
		}
		cur = part{}
	}
loop:
	for p.at < len(p.s) {
		switch c := p.s[p.at]; {
		case strings.IndexByte(",>)}", c) >= 0 && depth > 0:
			break loop
		case c == ' ':
			p.at++
			if !p.continues(&cur) {
				n.parts, cur = nil, part{} // it was a return type
			}
		case strings.HasPrefix(p.s[p.at:], "::"):
			p.at += 2
			push()
		case c == '<' && cur.name != "":
			cur.args = p.list(depth)
		case c == '(' && cur.name != "":
			cur.params = p.list(depth)
		case c == '{' && strings.HasPrefix(p.s[p.at:], "{lambda("):
			p.at += len("{lambda")
			cur = part{name: lambda, params: p.list(depth)}
			p.skip('}')
		case c == '\'' && strings.HasPrefix(p.s[p.at:], "'lambda"):
			p.at++
			p.skip('\'')
			cur.name = lambda
		case c == '(' || c == '{' || c == '[':
			p.balanced()
		case c == '*' || c == '&':
			p.at++
		default:
			if word := p.word(); len(cur.name) < longestPart {
				cur.name += word
			}
		}
	}
	push()
	n.text = strings.TrimSpace(p.s[start:p.at])
	return n
}

// continues reports whether the name goes on behind a space.
func (p *parser) continues(cur *part) bool {
	rest := p.s[p.at:]
	for _, qualifier := range []string{"const", "volatile"} {
		if after, is := strings.CutPrefix(rest, qualifier); is && (after == "" || !isWord(after[0])) {
			p.at += len(qualifier)
			return true
		}
	}
	switch cur.name {
	case "unsigned", "signed", "long", "unsigned long", "short", "unsigned short":
		if rest != "" && isWord(rest[0]) {
			cur.name += " "
		}
		return true
	}
	return rest == "" || strings.IndexByte("*&([ <>,)", rest[0]) >= 0 || cur.name == ""
}

// word reads an identifier, a number, or one other character.
func (p *parser) word() string {
	from := p.at
	for p.at < len(p.s) && isWord(p.s[p.at]) {
		p.at++
	}
	if p.at == from {
		p.at++
	} else if p.s[from:p.at] == "operator" {
		n := 0
		if strings.HasPrefix(p.s[p.at:], "()") {
			p.at += len("()")
			return p.s[from:p.at]
		}
		for n < len("<=>") && p.at+n < len(p.s) && strings.IndexByte("<>=!+-*/%^|~", p.s[p.at+n]) >= 0 {
			n++
		}
		p.at += n
	}
	return p.s[from:p.at]
}

func isWord(c byte) bool {
	switch {
	case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c == '$', c == '.', c >= 0x80:
		return true
	}
	return false
}

// list reads nodes in brackets. Brackets that are too deep are skipped.
func (p *parser) list(depth int) (list []*node) {
	if depth >= deepest {
		p.balanced()
		return nil
	}
	p.at++
	for p.at < len(p.s) {
		if n := p.node(depth + 1); len(n.parts) > 0 {
			list = append(list, n)
		}
		if p.at < len(p.s) {
			p.at++
			if p.s[p.at-1] != ',' {
				break
			}
			for p.at < len(p.s) && p.s[p.at] == ' ' {
				p.at++
			}
		}
	}
	return list
}

// balanced skips brackets with what is in them.
func (p *parser) balanced() {
	for depth := 0; p.at < len(p.s); {
		c := p.s[p.at]
		p.at++
		switch c {
		case '(', '<', '{', '[':
			depth++
		case ')', '>', '}', ']':
			if depth--; depth == 0 {
				return
			}
		}
	}
}

// skip goes on behind a character.
func (p *parser) skip(c byte) {
	if n := strings.IndexByte(p.s[p.at:], c); n >= 0 {
		p.at += n + 1
	} else {
		p.at = len(p.s)
	}
}

// head is the name without arguments, parameters and anonymous namespaces.
func (n *node) head() string {
	if len(n.parts) == 1 {
		return n.parts[0].name
	}
	names := make([]string, len(n.parts))
	for i := range n.parts {
		names[i] = n.parts[i].name
	}
	return strings.Join(names, "::")
}

// last is the last part, an empty one without any.
func (n *node) last() *part {
	if len(n.parts) == 0 {
		return new(part)
	}
	return &n.parts[len(n.parts)-1]
}
