package join

// A Budget bounds what the logs of one timeline together hold back for what belongs to it.
// Beyond it things are shown before all is known of them; the summaries count them.
type Budget struct {
	Records int // of calls and work, held back for blocks to come
	Calls   int // and pieces of work, held back for each other

	records, calls int // that are held back
}

// DefaultBudget is right for any machine: some 200 MiB at most.
func DefaultBudget() *Budget { return &Budget{Records: 1 << 21, Calls: 1 << 19} }

// A share is what one log holds of a budget.
type share struct{ records, calls int }

// holdRecords says how many records a log holds. It reports whether all logs together hold
// too many.
func (b *Budget) holdRecords(s *share, n int) (over bool) {
	b.records += n - s.records
	s.records = n
	return b.records > b.Records
}

// holdCalls is holdRecords for calls.
func (b *Budget) holdCalls(s *share, n int) (over bool) {
	b.calls += n - s.calls
	s.calls = n
	return b.calls > b.Calls
}
