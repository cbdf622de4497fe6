package cudaapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/goldentest"
)

// TestDocumentation compares docs/functions.md with the table.
func TestDocumentation(t *testing.T) {
	goldentest.Hold(t, "../../docs/functions.md", documentation())
}

const docHead = `# The functions that can be recorded

*A reference, made from the table in ` + "`record/cudaapi`" + `. ` + "`cudatrace probes`" + ` lists the functions with their arguments and marks those that a
recording would probe.*

- **%d functions** of CUDA 11 to 13; with the variants for per-thread default streams (_ptsz, _ptds) %d symbols.
- A function stands under the smallest set of ` + "`--api`" + ` that holds it. **minimal**: launches. **default**: also functions that create GPU work, move or
  allocate memory, load code or wait, and that make and destroy streams, events, graphs and contexts. **all**: also queries, getters, and
  functions that build graphs node by node.
- GPU work, and what allocates and frees in the order of a stream, is recorded at the driver, which every such call passes; **all** also records the
  runtime's functions for both. Other allocations are recorded at both, and still make [one slice](calls.md).
- *fallback* are driver functions that the runtime calls: recorded only in a program without a runtime, or if ` + "`--probe`" + ` names them.
- The other words in italics stand for [where begin, end, result and arguments of a call come from](#sources).
`

const docSources = `
## Sources

| | begin | end, result, what the call fills in | other arguments | API records |
|---|---|---|---|---|
%s
- What stands behind *or* holds where whole calls are probed, what stands before it
  [where they come from CUPTI](calls.md#sources-of-calls). While a call has no API record, its begin is what CUPTI's callback noted, or the
  entry probe.
- Return instructions that are not known have a [return probe](calls.md#what-unwinds-through-a-call) in their place.
- With ` + "`--calls cupti`" + `, begin, end and result of every call come from an API record, and nothing has the other arguments.
`

func documentation() string {
	var b strings.Builder
	rows := 0
	for i := range functions {
		f := &functions[i]
		if f.Name != f.Base() {
			continue
		}
		if rows++; i == 0 || f.Library != functions[i-1].Library {
			fmt.Fprintf(&b, "\n## %s\n\n%s", f.Library, sets(f.Library))
		}
	}
	return fmt.Sprintf(docHead, rows, len(functions)) + b.String() + fmt.Sprintf(docSources, sourcesTable())
}

// sourcesTable says where the begin, end, result and arguments of calls come from.
func sourcesTable() string {
	ends := [...]string{AtReturns: "return instructions", ByReturnProbe: "return probe"}
	purposes := [...]string{NoPurpose: "", ForWork: "name the GPU work", ForStreams: "name the stream's maker",
		ForPython: "have the Python frames", ForRefused: "`--calls cupti`: tell of refused launches"}
	var b strings.Builder
	for _, s := range sources {
		class, entry, end, arguments := "others", "entry probe", ends[s.End], "entry probe"
		if s.Class != "" {
			class = "*" + s.Class + "*"
		}
		switch {
		case s.Left != BothProbes && s.Record == NoPurpose:
			entry, end, arguments = "nothing or "+entry, "nothing or "+end, "nothing or "+arguments
		case s.Left != BothProbes:
			entry, end = "API record or "+entry, "API record or "+end
		}
		if s.Left == NoProbes && s.Record != NoPurpose {
			arguments = "GPU work or " + arguments
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", class, entry, end, arguments, purposes[s.Record])
	}
	return b.String()
}

// sets lists the functions of a library by their sets and sources.
func sets(library Library) string {
	var names []string
	members := make(map[string]string)
	for i := range functions {
		f := &functions[i]
		if f.Library != library || f.Name != f.Base() {
			continue
		}
		name := setName(f.Sets) + remarks(f)
		if members[name] == "" {
			names = append(names, name)
		}
		members[name] += " `" + f.Name + "`"
	}
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "- %s:%s\n", name, members[name])
	}
	return b.String()
}

func setName(s Set) string {
	switch {
	case s&Minimal != 0:
		return "**minimal**"
	case s&Default != 0:
		return "**default**"
	}
	return "**all**"
}

// remarks say of a function whether it is a fallback, and what its sources are.
func remarks(f *Function) (text string) {
	if f.Fallback {
		text = ", *fallback*"
	}
	if class := f.Sources().Class; class != "" {
		text += ", *" + class + "*"
	}
	return text
}
