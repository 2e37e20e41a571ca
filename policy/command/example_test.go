package command

import (
	"fmt"
)

func Example() {
	p, err := New(Rules{
		Strictness: Normal,
		Allow:      []string{"npm run test:*"},
		Block:      []string{"git push:*"},
		Home:       "/home/dev",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, text := range []string{"npm run test | tail -5", "cd / && rm -rf *", "make && git push"} {
		d := p.Judge(Input{Text: text, Dir: "/home/dev/work"})
		fmt.Println(d.Verdict, text)
		for _, r := range d.Reasons {
			fmt.Printf("  %s %s: %s\n", r.Verdict, r.Check, r.Message)
		}
	}
	// Output:
	// allow npm run test | tail -5
	// deny cd / && rm -rf *
	//   deny removal: rm removes *, without which the machine, a home or the work is lost
	// deny make && git push
	//   deny rule: git push is blocked by the rule "git push:*"
	//   allow pattern: git sends commits away
}
