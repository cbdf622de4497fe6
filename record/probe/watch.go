package probe

import (
	"math"

	"github.com/cudatrace/cudatrace/bpf"
)

// watchedFunction tells that there is a CUPTI client. Its cookie is no function's.
const (
	watchedFunction = "cuptiActivityRegisterCallbacks"
	watchCookie     = bpf.MaxFunctions - 1
)

// watchRecipe records the first argument, also while recording is paused.
func watchRecipe() *bpf.ProbesRecipe {
	r := &bpf.ProbesRecipe{Nargs: 1, Always: 1}
	r.Ops[0] = bpf.ProbesOp{Mask: math.MaxUint64, Kind: bpf.OpCopy}
	return r
}

// attachWatch probes CUPTI's own function that a client registers with, if the
// library has it and is new.
func (p *Prober) attachWatch(pid int, proc *process, l *openLibrary) error {
	if l.watched == 0 || p.watch == nil || proc.watches[l.id] != nil {
		return nil
	}
	links, err := p.attachSites(l.attachPath(), []site{{cookie: p.cookie(watchCookie), offset: l.watched}}, pid)
	if err != nil {
		return p.attachError(l.path, err)
	}
	proc.watches[l.id] = links
	return nil
}
