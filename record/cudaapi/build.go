package cudaapi

import (
	"fmt"
	"strconv"
	"strings"
)

var (
	functions = buildTable()
	byName    = indexNames(functions)
	byBase    = indexBases(functions)
)

// buildTable expands the rows into one function per exported symbol. A row that cannot be read
// is a mistake in this package, which every test run shows.
func buildTable() []Function {
	var table []Function
	for _, rows := range driverGroups {
		for _, r := range rows {
			table = r.expand(table, Driver)
		}
	}
	for _, rows := range runtimeGroups {
		for _, r := range rows {
			table = r.expand(table, Runtime)
		}
	}
	return table
}

func indexNames(table []Function) map[string]ID {
	index := make(map[string]ID, len(table))
	for i, f := range table {
		index[f.Name] = ID(i)
	}
	return index
}

// indexBases is the index by name without suffixes; of several functions the first counts.
func indexBases(table []Function) map[string]ID {
	index := make(map[string]ID, len(table))
	for i, f := range table {
		base := Unversioned(f.Name)
		if _, known := index[base]; !known {
			index[base] = ID(i)
		}
	}
	return index
}

// expand appends the row's function and, where there is one, its variant for per-thread default
// streams.
func (r row) expand(table []Function, lib Library) []Function {
	args, structs, err := parseArgs(r.args)
	if err != nil {
		panic(fmt.Sprintf("cudaapi: row %s: %v", r.name, err))
	}
	f := Function{
		ID: ID(len(table)), Name: r.name, Library: lib, Category: r.category, Sets: r.sets(), Args: args, Structs: structs,
		GPUWork: r.has(work), Fallback: r.has(instead), Beside: r.has(beside), Within: r.has(within), Naming: r.naming(),
		Range: r.profiled(),
	}
	table = append(table, f)
	suffix := r.suffix()
	if suffix == "" {
		return table
	}
	f.ID++
	f.Name += suffix
	return append(table, f)
}

func (r row) has(t trait) bool { return r.traits&t != 0 }

// suffix is the suffix of that variant, "" without one.
func (r row) suffix() string {
	switch {
	case r.has(ptsz):
		return "_ptsz"
	case r.has(ptds):
		return "_ptds"
	}
	return ""
}

func (r row) sets() Set {
	sets := All
	if !r.has(extra | within) {
		sets |= Default
	}
	if r.has(launch) {
		sets |= Minimal
	}
	return sets
}

func (r row) naming() Naming {
	switch {
	case r.has(named):
		return NamesByText
	case r.has(derived):
		return NamesByHandle
	}
	return NamesNothing
}

func (r row) profiled() Range {
	switch {
	case r.has(start):
		return RangeStart
	case r.has(stop):
		return RangeStop
	}
	return NoRange
}

// An argsParser reads the arguments of a row.
type argsParser struct {
	args    []Arg
	structs []Struct
	index   int    // number of the argument that is being read
	inside  string // "{" or "[" inside a struct, else ""
}

func parseArgs(text string) ([]Arg, []Struct, error) {
	p := argsParser{}
	for _, word := range strings.Fields(text) {
		if err := p.word(word); err != nil {
			return nil, nil, err
		}
	}
	if p.inside != "" {
		return nil, nil, fmt.Errorf("%q is not closed", p.inside)
	}
	return p.args, p.structs, nil
}

func (p *argsParser) word(word string) error {
	opens, text, closes := brackets(word)
	if opens != "" && p.inside != "" {
		return fmt.Errorf("%q is inside a struct", word)
	}
	if opens != "" {
		p.inside = opens
	}
	if closes != "" && closes != map[string]string{"{": "}", "[": "]"}[p.inside] {
		return fmt.Errorf("%q closes nothing", word)
	}
	if err := p.value(text, opens == "["); err != nil {
		return err
	}
	if closes != "" {
		p.inside = ""
	}
	if p.inside == "" {
		p.index++
	}
	return nil
}

// brackets removes the brackets around a word.
func brackets(word string) (opens, text, closes string) {
	text = strings.TrimLeft(word, "{[")
	opens = word[:len(word)-len(text)]
	word = text
	text = strings.TrimRight(word, "}]")
	return opens, text, word[len(text):]
}

// value reads a value, or the size of a struct that is passed by value.
func (p *argsParser) value(text string, size bool) error {
	if size {
		n, err := strconv.Atoi(text)
		if err != nil || n <= 0 {
			return fmt.Errorf("size of a struct %q", text)
		}
		p.structs = append(p.structs, Struct{Index: p.index, Bytes: n})
		return nil
	}
	if text == "-" {
		return nil
	}
	a, err := parseArg(text, p.inside)
	if err != nil {
		return err
	}
	a.Index = p.index
	p.args = append(p.args, a)
	return nil
}

// parseArg reads "name:type" or "*name:type"; inside a struct, "name@offset:type".
func parseArg(word, inside string) (Arg, error) {
	name, typeName, _ := strings.Cut(word, ":")
	a := Arg{From: map[string]Source{"": FromArgument, "{": FromField, "[": FromValue}[inside]}
	name, out := strings.CutPrefix(name, "*")
	if out {
		if inside == "[" {
			return a, fmt.Errorf("%q cannot be filled in by the call", word)
		}
		a.From = FromOut
	}
	a.Name = name
	if inside != "" {
		before, offset, _ := strings.Cut(name, "@")
		n, err := strconv.Atoi(offset)
		if err != nil || n < 0 {
			return a, fmt.Errorf("offset of %q", word)
		}
		a.Name, a.Offset = before, n
	}
	for t, known := range typeNames {
		if known == typeName {
			a.Type = ArgType(t)
			return a, nil
		}
	}
	return a, fmt.Errorf("type of %q", word)
}
