package kernelnames

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// dtype is the short name of a type of data, "" for what is none.
func (n *node) dtype() string {
	head := n.head()
	if short, known := dtypes[head]; known {
		return short
	}
	switch n.last().name {
	case "complex":
		return "complex<" + firstType(n.last().args) + ">"
	case "OpaqueType":
		if args := n.last().args; len(args) == 1 {
			return number(args[0].text) + "B"
		}
	}
	return dtypes[n.last().name]
}

// ownType is the first type of data among arguments, "" without one.
func ownType(args []*node) string {
	for _, a := range args {
		if t := a.dtype(); t != "" {
			return t
		}
	}
	return ""
}

// firstType is the first type of data among arguments, else in their own arguments.
func firstType(args []*node) string {
	if t := ownType(args); t != "" {
		return t
	}
	for _, a := range args {
		if !notOperations.MatchString(a.head()) {
			for i := range a.parts {
				if t := firstType(a.parts[i].args); t != "" {
					return t
				}
			}
		}
	}
	return ""
}

// operation is the functor or the lambda that arguments of a template have, the last one of several: nil for none.
func operationOf(args []*node) *node {
	for _, a := range slices.Backward(args) {
		if head := a.head(); head != "" && !isNumber(head) && a.dtype() == "" && !notOperations.MatchString(head) {
			return a
		}
	}
	return nil
}

// operation is what a functor or a lambda does, and the type of its data: "mul" and "float".
func (n *node) operation() (name, dtype string) {
	i := slices.IndexFunc(n.parts, func(p part) bool { return p.name == lambda })
	if i <= 0 {
		p := n.last()
		if inner := operationOf(p.args); inner != nil {
			name, dtype = inner.operation()
		}
		if name == "" {
			name = plainOperation(p.name)
		} else if slices.Contains(withScalar, p.name) {
			name += " scalar"
		}
		return name, cmp.Or(ownType(p.args), dtype, firstType(p.args))
	}
	if n.parts[i-1].name == "operator()" && i > 1 {
		i--
	}
	made := &n.parts[i-1]
	if inner := operationOf(made.args); inner != nil {
		if name, dtype = inner.operation(); name != "" {
			return name, cmp.Or(ownType(made.args), dtype)
		}
	}
	params := n.last().params
	if len(params) > 1 && params[0].dtype() == "bool" { // a condition
		params = params[1:]
	}
	return plainOperation(made.name), cmp.Or(ownType(made.args), firstType(params))
}

// plainOperation is a functor's name without what all functors have in their names, in lower case.
func plainOperation(name string) string {
	if len(name) > 2*Width {
		return name
	}
	scalar := strings.HasPrefix(name, "CUDAFunctorOn")
	s := name
	for {
		next := operationEnds.ReplaceAllString(operationStarts.ReplaceAllString(s, ""), "")
		if next == "" || next == s {
			break
		}
		s = next
	}
	s = strings.ToLower(capital.ReplaceAllString(s, "${1}${3}_${2}${4}"))
	if known, is := operations[s]; is {
		s = known
	}
	if scalar {
		s += " scalar"
	}
	return strings.Trim(s, "_")
}

// plainName is a kernel's identifier without what says that it is a kernel.
func plainName(name string) string {
	for _, end := range kernelEnds {
		if short := strings.TrimSuffix(name, end); short != "" {
			name = short
		}
	}
	return name
}

func isNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	return s == "true" || s == "false" || s != "" && s[0] >= '0' && s[0] <= '9'
}

// number is a number without the letters that tell its type.
func number(s string) string {
	if isNumber(s) {
		return strings.TrimRight(s, "ulUL")
	}
	return s
}

// simple is a type or a number in few characters.
func (n *node) simple() string {
	if t := n.dtype(); t != "" {
		return t
	}
	p := n.last()
	var args []string
	for _, a := range p.args {
		args = append(args, a.simple())
	}
	switch {
	case p.name == "C" && len(args) == 1, p.name == "integral_constant" && len(args) == 2:
		return args[len(args)-1]
	case p.name == "tuple" && len(n.parts) > 1 && n.parts[0].name == "cute":
		return strings.Join(args, "x")
	case len(args) > 0:
		return number(p.name) + "<" + strings.Join(args, ", ") + ">"
	}
	return number(p.name)
}

// at returns the argument of a path such as 0.1.2, nil if there is none.
func (n *node) at(path string) *node {
	for _, step := range strings.Split(path, ".") {
		args := n.last().args
		i, err := strconv.Atoi(step)
		if err != nil || i >= len(args) {
			return nil
		}
		n = args[i]
	}
	return n
}

// tokens are the words of a name: what differs between two names is some of them.
func tokens(name string) []string {
	return strings.FieldsFunc(forTokens.Replace(name), func(r rune) bool {
		return r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && r < 0x80
	})
}
