package cupti

import (
	"bytes"
	"path"
	"regexp"
)

// A kernel that PyTorch's compiler, Inductor, has made of several operators is launched outside of all operators, by a
// Python file that Inductor has generated. A comment in front of each launch lists the operators.

// generated matches the name of such a file, which is the hash of its contents.
var generated = regexp.MustCompile(`^c[a-z2-7]{51}\.py$`)

var (
	// "# Topologically Sorted Source Nodes: [x, y], Original ATen: [aten.add, aten.mul]"
	listsOperators = []byte("Original ATen: [")
	operatorList   = regexp.MustCompile(`^\s*#.*Original ATen: \[([\w.:, ]{1,1000})\]`)
	launchesKernel = regexp.MustCompile(`^\s*\w+\.run\(`)
)

// compiledMost bounds the lines of generated files of a log.
const compiledMost = 1 << 16

// compiledLines are the lines of a generated file that launch kernels, with the operators of the comment in front.
func compiledLines(text []byte) map[uint32]string {
	lines, number, list := make(map[uint32]string), uint32(0), ""
	for line := range bytes.Lines(text) {
		number++
		switch {
		case bytes.Contains(line, listsOperators):
			list = ""
			if m := operatorList.FindSubmatch(line); m != nil {
				list = string(m[1])
			}
		case list != "" && launchesKernel.Match(line):
			lines[number], list = list, ""
		}
	}
	return lines
}

// learn reads a file that a code object of a process is of, if it is a generated one that has not been read.
func (l *PythonLog) learn(pid uint32, file string) {
	name := path.Base(file)
	if l.Generated == nil || !generated.MatchString(name) {
		return
	}
	l.mu.Lock()
	_, known := l.compiled[name]
	l.mu.Unlock()
	if known {
		return
	}
	lines := compiledLines(l.Generated(pid, file))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.compiled == nil {
		l.compiled = make(map[string]map[uint32]string)
	}
	if l.lines += 1 + len(lines); l.lines <= compiledMost {
		l.compiled[name] = lines
	}
}
