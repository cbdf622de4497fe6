package timeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Facts are what is known of a log, as text, by name.
func (m *Metadata) Facts() (facts []Detail) {
	for _, key := range slices.Sorted(maps.Keys(m.Values)) {
		facts = appendFact(facts, key, m.Values[key])
	}
	facts = appendFact(facts, "args", strings.Join(m.Args, " "))
	facts = appendFact(facts, "cuda_driver_version", m.Driver.String())
	facts = appendFact(facts, "cupti_version", m.CUPTI.String())
	return appendVariables(facts, m.Variables)
}

// Facts are the circumstances of a process, as text, by name.
func (p *Process) Facts() (facts []Detail) {
	if p.Rank.Known {
		facts = appendFact(facts, "rank", fmt.Sprint(p.Rank.Number))
		facts = appendFact(facts, "local_rank", fmt.Sprint(p.Rank.Local))
	}
	if p.Rank.Of != 0 {
		facts = appendFact(facts, "world_size", fmt.Sprint(p.Rank.Of))
	}
	facts = appendFact(facts, "args", strings.Join(p.Args, " "))
	facts = appendFact(facts, "cwd", p.Folder)
	facts = appendFact(facts, "cuda_runtime", p.Runtime)
	facts = appendFact(facts, "nccl", p.NCCL)
	return appendVariables(facts, p.Variables)
}

// Facts are the properties of a GPU that are known, by name. Numbers are in the units of GPU.
func (g *GPU) Facts() (facts []Detail) {
	for _, n := range []Detail{
		{Name: "multiprocessors", Value: uint64(g.Multiprocessors)},
		{Name: "memory_bytes", Value: g.Memory},
		{Name: "memory_bandwidth_kBps", Value: g.Bandwidth},
		{Name: "l2_cache_bytes", Value: uint64(g.L2Cache)},
		{Name: "clock_kHz", Value: uint64(g.Clock)},
		{Name: "copy_engines", Value: uint64(g.CopyEngines)},
		{Name: "max_warps", Value: uint64(g.Limits.MaxWarps)},
		{Name: "max_blocks", Value: uint64(g.Limits.MaxBlocks)},
		{Name: "max_registers", Value: uint64(g.Limits.MaxRegisters)},
		{Name: "max_shared_memory_bytes", Value: uint64(g.Limits.MaxSharedMemory)},
		{Name: "pcie_generation", Value: uint64(max(g.Link.Generation, g.Link.MaxGeneration))},
		{Name: "pcie_width", Value: uint64(g.Link.Width)},
	} {
		if n.Value != 0 {
			facts = appendFact(facts, n.Name, fmt.Sprint(n.Value))
		}
	}
	return appendFact(facts, "pci", g.Link.Address)
}

// Facts are the facts of a span that are known when it begins, by name.
func (s *Span) Facts() (facts []Detail) {
	if s.Function == nil && s.Flags == 0 {
		return s.Args
	}
	if f := s.Function; f != nil {
		facts = append(facts, Detail{Name: "library", Text: f.Library})
		for i, v := range f.Args {
			facts = append(facts, register(f.Params[i].Name, v))
		}
	}
	facts = append(facts, s.Args...)
	if !s.Open {
		facts = s.ending(facts)
	}
	if s.Flags&CutBefore != 0 {
		facts = append(facts, Detail{Name: "part", Text: "began before this part"})
	}
	return facts
}

// LateFacts are the facts of a span that were not known when it began.
func (s *SpanEnd) LateFacts() []Detail {
	if !s.Open {
		return nil
	}
	return append(s.ending(nil), s.Late...)
}

// ending appends how a span ended, where that is a fact of its own.
func (s *Span) ending(facts []Detail) []Detail {
	switch {
	case s.Flags&Unfinished != 0:
		return append(facts, Detail{Name: "unfinished", Text: "had not ended when recording did"})
	case s.Flags&NoReturn != 0:
		return append(facts, Detail{Name: "no_return", Text: "left without returning"})
	case s.Function != nil && s.Function.Returned:
		return append(facts, register("returns", s.Function.Ret))
	}
	return facts
}

// register is a register. Its type is not known: small numbers are decimal, all others hexadecimal.
func register(name string, v uint64) Detail {
	return Detail{Name: name, Value: v, Hex: v>>31 != 0}
}

func appendFact(facts []Detail, name, text string) []Detail {
	if text == "" {
		return facts
	}
	return append(facts, Detail{Name: name, Text: text})
}

func appendVariables(facts []Detail, variables map[string]string) []Detail {
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		facts = appendFact(facts, "env "+name, variables[name])
	}
	return facts
}
