package probe

import (
	"fmt"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

var (
	rangeOf  = map[cudaapi.Range]uint8{cudaapi.RangeStart: bpf.RangeBegin, cudaapi.RangeStop: bpf.RangeEnd}
	symbolOf = map[cudaapi.Naming]uint8{cudaapi.NamesByText: bpf.SymbolNamed, cudaapi.NamesByHandle: bpf.SymbolDerived}
)

// fillRecipes tells the eBPF program what to do at each function: those chosen, and
// those that are probed only for what they do.
func (p *Prober) fillRecipes(o Options) error {
	chosen := map[string]bool{}
	for _, f := range o.Functions {
		p.names[f.Name] = f
		chosen[f.Name] = true
	}
	for _, f := range cudaapi.Functions(cudaapi.All) {
		if o.needs(f) { // beside a runtime too
			own := *f
			own.Fallback = false
			p.names[f.Name] = &own
		}
	}
	for _, f := range p.names {
		recipe, err := o.recipe(f)
		if err != nil {
			return err
		}
		if !chosen[f.Name] {
			recipe.Quiet = 1
		}
		if err := p.setRecipe(uint32(f.ID), recipe, f.Name); err != nil {
			return err
		}
	}
	return p.setRecipe(watchCookie, watchRecipe(), watchedFunction)
}

// setRecipe says what is done at a function: plain ones need no recipe in the kernel.
func (p *Prober) setRecipe(function uint32, r *bpf.ProbesRecipe, name string) error {
	if how, ok := compilePlain(function, r); ok {
		p.plain[function] = how
		return nil
	}
	if err := p.maps.Recipes.Put(function, r); err != nil {
		return fmt.Errorf("storing the arguments of %s: %w", name, err)
	}
	return nil
}

// cookie is what a probe of the function is attached with.
func (p *Prober) cookie(function uint32) uint64 {
	if how := p.plain[function]; how != nil {
		return how.cookie
	}
	return uint64(function)
}

// needs says whether a function is probed for what it does, chosen or not.
func (o *Options) needs(f *cudaapi.Function) bool {
	return o.Symbols && f.Naming != cudaapi.NamesNothing || o.CaptureRange && f.Range != cudaapi.NoRange
}

func (o *Options) recipe(f *cudaapi.Function) (*bpf.ProbesRecipe, error) {
	r, err := compileRecipe(f)
	if err != nil {
		return nil, err
	}
	if o.CaptureRange {
		r.Range = rangeOf[f.Range]
	}
	if o.Symbols {
		r.Symbol = symbolOf[f.Naming]
	}
	if r.Symbol != bpf.SymbolNone || r.Range == bpf.RangeBegin {
		r.Later = 1
	}
	return r, nil
}
