import { readFileSync } from 'node:fs';

// The source of noVNC is under the Mozilla Public License 2.0, which wants to be said
// where it is found.
const novnc = JSON.parse(readFileSync(new URL('./node_modules/@novnc/novnc/package.json', import.meta.url), 'utf8'));
const license = {
  name: 'license',
  generateBundle(_, bundle) {
    bundle['display.js'].code = `/*! Has noVNC ${novnc.version}, under MPL-2.0; its source is the npm package ${novnc.name} of this version. */\n` + bundle['display.js'].code;
  },
};

// The build is the same wherever it runs: no source maps, no banner, names by content.
// display.js alone has a name of its own: the daemon puts it into a page.
export default {
  base: './',
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  plugins: [license],
  build: {
    target: 'es2022', modulePreload: false, assetsInlineLimit: 0, reportCompressedSize: false, chunkSizeWarningLimit: 900,
    rollupOptions: {
      input: ['index.html', 'src/display.ts'],
      output: { entryFileNames: (chunk) => (chunk.name === 'display' ? 'display.js' : 'assets/[name]-[hash].js'), chunkFileNames: 'assets/[name]-[hash].js', assetFileNames: 'assets/[name]-[hash][extname]' },
    },
  },
};
