// What is in ADAPTERS.md. ADAPTERS_PAGE names it.
import { readFileSync } from 'node:fs'

/** The blocks of code of a language. */
export function blocks(language) {
  const page = readFileSync(process.env.ADAPTERS_PAGE, 'utf8')
  return [...page.matchAll(new RegExp('^```' + language + '\\n([^]*?)^```$', 'gm'))].map(([, block]) => block)
}
