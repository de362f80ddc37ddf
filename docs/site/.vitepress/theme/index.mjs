import DefaultTheme from 'vitepress/theme';
import { h } from 'vue';
import './style.css';
import './table.css';
import './home.css';

/** The default theme has no landmark on this page. */
const notFound = () =>
  h('main', { class: 'vp-doc not-found' }, [
    h('h1', 'There is no such page'),
    h('p', h('a', { href: '/pages' }, 'All pages')),
  ]);

export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, { 'not-found': notFound }),
};
