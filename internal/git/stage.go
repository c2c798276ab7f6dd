package git

import (
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
)

// stage holds objects that are not in the repository yet, in the order in which
// they were written.
type stage struct {
	mu      sync.Mutex
	objects map[Hash]object
	order   []Hash
}

func (s *stage) find(h Hash) (object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[h]
	return o, ok
}

func (s *stage) add(h Hash, kind plumbing.ObjectType, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[h]; ok {
		return
	}
	s.objects[h] = object{kind: kind, data: data}
	s.order = append(s.order, h)
}

// reset forgets everything.
func (s *stage) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects, s.order = map[Hash]object{}, nil
}

// all lists the objects from the n-th on.
func (s *stage) all(n int) ([]Hash, []object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	order := s.order[min(n, len(s.order)):]
	list := make([]object, len(order))
	for i, h := range order {
		list[i] = s.objects[h]
	}
	return order, list
}
