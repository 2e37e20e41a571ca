package fake

import (
	"errors"
	"strconv"
	"strings"
)

// A calculator evaluates integer expressions: + - * / %, comparisons,
// parentheses, numbers and names.
type calculator struct {
	src   string
	value func(name string) int64
	depth int
}

func (c *calculator) whole() (int64, error) {
	if strings.TrimSpace(c.src) == "" {
		return 0, nil
	}
	n, err := c.level(0)
	if err == nil && c.peek() != "" {
		err = errors.New("malformed")
	}
	return n, err
}

// peek returns what is left without blanks in front.
func (c *calculator) peek() string {
	c.src = strings.TrimLeft(c.src, " \t\n")
	return c.src
}

// levels are the operators, the loosest first.
func levels() [][]string {
	return [][]string{{"==", "!="}, {"<=", ">=", "<", ">"}, {"+", "-"}, {"*", "/", "%"}}
}

func (c *calculator) level(i int) (int64, error) {
	all := levels()
	if i == len(all) {
		return c.operand()
	}
	n, err := c.level(i + 1)
	for err == nil {
		op := ""
		for _, candidate := range all[i] {
			if op == "" && strings.HasPrefix(c.peek(), candidate) {
				op = candidate
			}
		}
		if op == "" {
			break
		}
		c.src = c.src[len(op):]
		var m int64
		if m, err = c.level(i + 1); err == nil {
			n, err = apply(op, n, m)
		}
	}
	return n, err
}

func apply(op string, n, m int64) (int64, error) {
	is := func(b bool) (int64, error) { return int64(1 - truth(b)), nil }
	switch op {
	case "+":
		return n + m, nil
	case "-":
		return n - m, nil
	case "*":
		return n * m, nil
	case "==":
		return is(n == m)
	case "!=":
		return is(n != m)
	case "<":
		return is(n < m)
	case "<=":
		return is(n <= m)
	case ">":
		return is(n > m)
	case ">=":
		return is(n >= m)
	}
	if m == 0 {
		return 0, errors.New("division by zero")
	}
	if op == "/" {
		return n / m, nil
	}
	return n % m, nil
}

func (c *calculator) operand() (int64, error) {
	if c.depth++; c.depth > 100 {
		return 0, errors.New("nested too deeply")
	}
	defer func() { c.depth-- }()
	s := c.peek()
	switch {
	case strings.HasPrefix(s, "-"):
		c.src = s[1:]
		n, err := c.operand()
		return -n, err
	case strings.HasPrefix(s, "("):
		c.src = s[1:]
		n, err := c.level(0)
		if err == nil && !strings.HasPrefix(c.peek(), ")") {
			err = errors.New("missing )")
		}
		if err == nil {
			c.src = c.src[1:]
		}
		return n, err
	}
	end := 0
	for end < len(s) && (s[end] == '_' || s[end]|0x20 >= 'a' && s[end]|0x20 <= 'z' || s[end] >= '0' && s[end] <= '9') {
		end++
	}
	word := s[:end]
	c.src = s[end:]
	switch {
	case word == "":
		return 0, errors.New("malformed")
	case word[0] >= '0' && word[0] <= '9':
		return strconv.ParseInt(word, 0, 64)
	}
	return c.value(word), nil
}
