import DefaultTheme from 'vitepress/theme';
import { h } from 'vue';
import './style.css';

/** The default theme has no landmark on this page. */
const notFound = () =>
  h('main', { class: 'vp-doc not-found' }, [
    h('h1', 'There is no such page'),
    h('p', h('a', { href: '/' }, 'All pages')),
  ]);

export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, { 'not-found': notFound }),
};
