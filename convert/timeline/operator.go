package timeline

import (
	"iter"
	"strings"
)

// An Operator is an operator of PyTorch that a call was made in, or a range of the program's that PyTorch tells of, with
// those that called it.
type Operator struct {
	Name    string // as PyTorch has it
	Scope   OperatorScope
	Parent  *Operator // nil for the outermost one
	Forward *Operator // of a backward operator: the forward one that made it, nil if unknown
	ID      uint32    // a number that no other stack of operators in the log has, not 0
}

// An OperatorScope is the kind of an operator: at::RecordScope.
type OperatorScope uint32

// The scopes that are told apart.
const (
	BackwardScope OperatorScope = 1
	RangeScope    OperatorScope = 7
	CompiledScope OperatorScope = 1 << 16 // not PyTorch's: the operators that a kernel was compiled of
)

// Compiled is the operator of a kernel that PyTorch compiled of others, "aten.add, aten.mul", within the one around.
func Compiled(of string, around *Operator, id uint32) *Operator {
	names := strings.Split(of, ", ")
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, "aten.")
	}
	return &Operator{Name: strings.Join(names, ", ") + " (compiled)", Scope: CompiledScope, Parent: around, ID: id}
}

// maxOperators bounds the operators of a stack that are looked at. A recorder reads fewer.
const maxOperators = 128

// evaluates is how autograd names the evaluation of a backward operator, in front of the operator's name.
const evaluates = "autograd::engine::evaluate_function: "

// Title is the operator's name as people see it: "AddmmBackward0".
func (o *Operator) Title() string { return strings.TrimPrefix(o.Name, evaluates) }

// Same reports whether two are of one name and kind, whatever is around them.
func (o *Operator) Same(p *Operator) bool { return o.Name == p.Name && o.Scope == p.Scope }

// Chain is the operator and those that called it, from the inside out, as PyTorch has them.
func (o *Operator) Chain() iter.Seq[*Operator] {
	return func(yield func(*Operator) bool) {
		for f, n := o, 0; f != nil && n < maxOperators && yield(f); n++ {
			f = f.Parent
		}
	}
}

// Operators are the operator and those that called it, from the inside out. One that autograd evaluates comes once.
func (o *Operator) Operators() iter.Seq[*Operator] {
	return func(yield func(*Operator) bool) {
		for n := 0; o != nil && n < maxOperators; n++ {
			next := o.Parent
			if next != nil && next.Title() == o.Title() && next.Name != o.Name {
				next = next.Parent
			}
			if !yield(o) {
				return
			}
			o = next
		}
	}
}

// Made is the forward operator that made the backward one in which the call was made, nil for none.
func (o *Operator) Made() *Operator {
	for f := range o.Operators() {
		if f.Forward != nil {
			return f.Forward
		}
		if p := f.Parent; p != nil && p.Forward != nil {
			return p.Forward
		}
	}
	return nil
}

// IsBackward reports whether it is a backward operator.
func (o *Operator) IsBackward() bool {
	return o.Scope == BackwardScope || strings.HasPrefix(o.Name, evaluates)
}

// Stack is the text of the operator and of those that called it: "aten::addmm <- aten::linear".
func (o *Operator) Stack() string {
	var b strings.Builder
	for f := range o.Operators() {
		if b.Len() >= maxStackText {
			b.WriteString(" <- (more operators)")
			break
		}
		if f != o {
			b.WriteString(" <- ")
		}
		b.WriteString(f.Title())
	}
	return b.String()
}
