// The build is the same wherever it runs: no source maps, no banner, names by content.
export default {
  base: './',
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  build: {
    target: 'es2022', modulePreload: false, assetsInlineLimit: 0, reportCompressedSize: false, chunkSizeWarningLimit: 900,
    rollupOptions: { output: { entryFileNames: 'assets/[name]-[hash].js', chunkFileNames: 'assets/[name]-[hash].js', assetFileNames: 'assets/[name]-[hash][extname]' } },
  },
};
