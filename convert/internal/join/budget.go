package join

// A Budget bounds the calls and work that the logs of one timeline together hold back. Beyond
// it events are shown before everything that belongs to them is known; the summaries count
// these events.
type Budget struct {
	Records int // calls and pieces of work that wait for later blocks
	Calls   int // calls and pieces of work that wait for each other

	records, calls int // held back now
}

// DefaultBudget suits any machine: at most about 200 MiB.
func DefaultBudget() *Budget { return &Budget{Records: 1 << 21, Calls: 1 << 19} }

// A share is one log's part of a budget.
type share struct{ records, calls int }

// holdRecords sets the number of records that a log holds. It reports whether all logs together
// hold too many.
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
