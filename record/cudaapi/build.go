package cudaapi

import (
	"fmt"
	"strconv"
	"strings"
)

var (
	functions = buildTable()
	byName    = indexNames(functions)
)

// buildTable expands the rows into one function per exported symbol. A row that
// can't be read is a mistake in this package, which the first test run meets.
func buildTable() []Function {
	var table []Function
	for _, r := range driverRows {
		table = r.expand(table, Driver)
	}
	for _, r := range runtimeRows {
		table = r.expand(table, Runtime)
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

// expand appends the row's function, and its form for per-thread default streams.
func (r row) expand(table []Function, lib Library) []Function {
	args, err := parseArgs(r.args)
	if err != nil {
		panic(fmt.Sprintf("cudaapi: row %s: %v", r.name, err))
	}
	f := Function{
		ID: ID(len(table)), Name: r.name, Library: lib, Category: r.category, Sets: r.sets(), Args: args,
		GPUWork: r.traits&work != 0, Fallback: r.traits&instead != 0,
	}
	table = append(table, f)
	switch {
	case r.traits&ptsz != 0:
		f.Name += "_ptsz"
	case r.traits&ptds != 0:
		f.Name += "_ptds"
	default:
		return table
	}
	f.ID++
	return append(table, f)
}

func (r row) sets() Set {
	sets := All
	if r.traits&query == 0 {
		sets |= Default
	}
	if r.traits&launch != 0 {
		sets |= Minimal
	}
	return sets
}

// parseArgs reads the arguments of a row.
func parseArgs(text string) ([]Arg, error) {
	var args []Arg
	index, inside := 0, false
	for _, word := range strings.Fields(text) {
		opens, closes := strings.HasPrefix(word, "{"), strings.HasSuffix(word, "}")
		if opens && inside || closes && !opens && !inside {
			return nil, fmt.Errorf("braces of %q", word)
		}
		inside = inside || opens
		if word != "-" {
			a, err := parseArg(strings.Trim(word, "{}"), inside)
			if err != nil {
				return nil, err
			}
			a.Index = index
			args = append(args, a)
		}
		inside = inside && !closes
		if !inside {
			index++
		}
	}
	if inside {
		return nil, fmt.Errorf("a brace is not closed")
	}
	return args, nil
}

// parseArg reads "name:type", "*name:type", or inside a struct "name@offset:type".
func parseArg(word string, field bool) (Arg, error) {
	name, typeName, _ := strings.Cut(word, ":")
	a := Arg{Name: name}
	if rest, out := strings.CutPrefix(name, "*"); out {
		a.Name, a.From = rest, FromOut
	}
	if field {
		before, offset, _ := strings.Cut(name, "@")
		n, err := strconv.Atoi(offset)
		if err != nil || n < 0 {
			return a, fmt.Errorf("offset of %q", word)
		}
		a.Name, a.From, a.Offset = before, FromField, n
	}
	for t, known := range typeNames {
		if known == typeName {
			a.Type = ArgType(t)
			return a, nil
		}
	}
	return a, fmt.Errorf("type of %q", word)
}
