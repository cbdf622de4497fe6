package cupti

// A callerTable holds where the calls of a process were made, by the number of the chain of return
// addresses above the call.
type callerTable struct {
	find func(Chain) (caller uint32, depth int) // nil: nobody wants to know
	tell func(innermost uint64, depth int)

	known   [chainsMax]bool
	callers [chainsMax]uint32
	sites   map[uint64]*callSite // by innermost address
}

// barrenMax is the number of chains with one innermost address after which no more are asked for
// if none of them has had a caller.
const barrenMax = 64

// A callSite is the innermost address of chains.
type callSite struct {
	depth   int // what the process was told last
	barren  int // chains without a caller
	fertile bool
}

// add finds the caller of a chain.
func (t *callerTable) add(number uint32, c Chain) error {
	if number == 0 || number >= chainsMax || t.known[number] {
		return malformed("chain number %d, out of range or sent before", number)
	}
	t.known[number] = true
	if t.find == nil {
		return nil
	}
	caller, depth := t.find(c)
	t.callers[number] = caller
	t.judge(c.Addresses[0], caller, min(depth, chainMax))
	return nil
}

// judge tells the process how many addresses are of use, if that has changed.
func (t *callerTable) judge(innermost uint64, caller uint32, depth int) {
	if t.sites == nil {
		t.sites = map[uint64]*callSite{}
	}
	s := t.sites[innermost]
	if s == nil {
		s = &callSite{}
		t.sites[innermost] = s
	}
	if caller != 0 {
		s.fertile = true
	} else {
		s.barren++
	}
	switch {
	case !s.fertile && s.barren >= barrenMax:
		if s.barren > barrenMax {
			return
		}
		s.depth = 1
	case depth > s.depth:
		s.depth = depth
	default:
		return
	}
	t.tell(innermost, s.depth)
}

// caller returns the number of the caller record of a chain; 0 has none.
func (t *callerTable) caller(number uint32) (uint32, error) {
	if number == 0 {
		return 0, nil
	}
	if number >= chainsMax || !t.known[number] {
		return 0, malformed("chain number %d, which was never sent", number)
	}
	return t.callers[number], nil
}

func decodeChain(d *decoder, b []byte) error {
	count := le.Uint32(b[16:])
	if count == 0 || count > chainMax || int(count)*8 > len(b)-chainSize {
		return malformed("a chain of %d addresses in %d bytes", count, len(b))
	}
	addresses := make([]uint64, count)
	for i := range addresses {
		addresses[i] = le.Uint64(b[chainSize+8*i:])
	}
	return d.callers.add(le.Uint32(b[4:]), Chain{Epoch: le.Uint64(b[8:]), Addresses: addresses})
}
